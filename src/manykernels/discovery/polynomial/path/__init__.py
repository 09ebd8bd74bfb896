"""Strengths of polynomial kernels: a path of models, their choice by cross-validation, and a second step."""
