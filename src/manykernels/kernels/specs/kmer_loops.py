"""The loop over the windows of sequences: it counts k-mers, sums over sequences by k-mer, or evaluates functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.compiled import compiled
from manykernels.validation.arrays import Array

UNKNOWN = 255  # the number of a letter outside the alphabet
COUNT, SPREAD, GATHER = 0, 1, 2  # what becomes of a window's places: counted, added to, or summed over


@compiled()
def place_of(word: Any, n_places: int, seed: Any) -> Any:
    """Return the place of a word: its number where there are places enough, else a hash of it (splitmix64)."""
    if word < np.uint64(n_places):
        return np.int64(word)
    h = word + (seed + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    h = h ^ (h >> np.uint64(31))
    return np.int64(h % np.uint64(n_places))


@compiled()
def neighbors_of(word: int, length: int, size: int, mismatches: int, out: Array, used: Array) -> int:
    """Write all words that differ from one in at most so many letters into ``out``; return how many."""
    out[0], used[0], count = word, 0, 1
    power = 1
    for _ in range(length):
        digit = (word // power) % size
        for i in range(count):
            if used[i] < mismatches:
                for other in range(size):
                    if other != digit:
                        out[count] = out[i] + (other - digit) * power
                        used[count] = used[i] + 1
                        count += 1
        power *= size
    return count


@compiled()
def walk(
    row: Array, plan: Any, mode: int, amount: float, table: Array, touched: Array, n: int, words: Array, used: Array
) -> tuple[int, float]:
    """Go through the windows of one sequence.

    COUNT adds roots of weights to places of ``table`` and remembers new places in ``touched`` from ``n`` on; SPREAD
    adds ``amount`` times them; GATHER sums the entries of ``table``, so often as they count. Returns how many places
    are remembered, and the sum.
    """
    size, lengths, roots, masks, mismatches, positional, shift, n_places, seed = plan
    longest, total, a_place, kept = lengths[-1], 0.0, 0, 1
    for _ in range(masks.shape[1]):
        kept *= size
    powers = np.empty(lengths.size, dtype=np.int64)
    for slot in range(lengths.size):
        power = 1
        for _ in range(lengths[slot]):
            power *= size
        powers[slot] = power
        a_place += power
    if masks.shape[1]:
        a_place = masks.shape[0] * kept
    if lengths.size == 1 and not masks.shape[1] and not mismatches and not positional and powers[0] <= n_places:
        code, known = 0, 0  # one length: from window to window one letter goes and one comes
        for i in range(row.size):
            letter = row[i]
            if letter == UNKNOWN:
                code, known = 0, 0
                continue
            code, known = code * size + letter, known + 1
            if known > longest:
                code -= row[i - longest] * powers[0]
            if known >= longest:
                if mode == GATHER:
                    total += table[code]
                elif mode == SPREAD:
                    table[code] += amount
                else:
                    if table[code] == 0.0:
                        touched[n] = code
                        n += 1
                    table[code] += 1.0
        return n, total
    for start in range(row.size):
        offset, code, done = 0, 0, 0
        for slot in range(lengths.size):
            length = lengths[slot]
            if start + length > row.size:
                break
            while done < length and row[start + done] != UNKNOWN:
                code = code * size + row[start + done]
                done += 1
            if done < length:
                break
            count = 1
            if masks.shape[1]:
                count = masks.shape[0]
                for mask in range(count):
                    word = 0
                    for at in masks[mask]:
                        word = word * size + row[start + at]
                    words[mask] = mask * kept + word
            elif mismatches:
                count = neighbors_of(code, longest, size, mismatches, words, used)
            else:
                words[0] = offset + code
            for i in range(count):
                for near in range(2 * shift + 1):  # places before the first are places too
                    full = np.uint64(words[i])
                    if positional:
                        full += np.uint64(start + near) * np.uint64(a_place)
                    place = place_of(full, n_places, seed)
                    if mode == GATHER:
                        total += roots[slot] * table[place]
                    elif mode == SPREAD:
                        table[place] += amount * roots[slot]
                    else:
                        if table[place] == 0.0:
                            touched[n] = place
                            n += 1
                        table[place] += roots[slot]
            offset += powers[slot]
    return n, total


@compiled()
def other_strand(row: Array, size: int) -> Array:
    """Return the letters of the other strand, backwards: those of an alphabet whose ends and middles are paired."""
    other = row[::-1].copy()
    for i in range(other.size):
        if other[i] != UNKNOWN:
            other[i] = size - 1 - other[i]
    return other


@compiled()
def scratch(starts: Array, plan: Any, a_window: int, both: bool) -> tuple[Array, Array, Array]:
    """Return room for the places of one sequence, and for the words of one window."""
    longest = 0
    for i in range(starts.size - 1):
        longest = max(longest, starts[i + 1] - starts[i])
    places = longest * a_window * plan[1].size * (2 * plan[6] + 1) * (2 if both else 1)
    return np.empty(min(places, plan[7]) + 1, np.int64), np.empty(a_window, np.int64), np.empty(a_window, np.int64)


@compiled()
def count_kmers(
    codes: Array, starts: Array, plan: Any, a_window: int, both: bool, normalized: bool
) -> tuple[Array, Array, Array]:
    """Return counts of k-mers as the data, indices (unsorted) and ends of a CSR matrix."""
    table = np.zeros(plan[7])
    touched, words, used = scratch(starts, plan, a_window, both)
    room = 16 + 2 * codes.size
    data, indices, ends = np.empty(room), np.empty(room, dtype=np.int32), np.zeros(starts.size, dtype=np.int64)
    filled = 0
    for i in range(starts.size - 1):
        row = codes[starts[i] : starts[i + 1]]
        n, _ = walk(row, plan, COUNT, 1.0, table, touched, 0, words, used)
        if both:
            n, _ = walk(other_strand(row, plan[0]), plan, COUNT, 1.0, table, touched, n, words, used)
        if filled + n > room:
            room = 2 * (filled + n)
            wider, longer = np.empty(room), np.empty(room, dtype=np.int32)
            wider[:filled], longer[:filled] = data[:filled], indices[:filled]
            data, indices = wider, longer
        squares = 0.0
        for j in range(n):
            squares += table[touched[j]] ** 2
        scale = 1.0 / np.sqrt(squares) if normalized and squares > 0.0 else 1.0
        for j in range(n):
            data[filled + j], indices[filled + j] = table[touched[j]] * scale, touched[j]
            table[touched[j]] = 0.0
        filled += n
        ends[i + 1] = filled
    return data[:filled], indices[:filled], ends


@compiled()
def squares_of(codes: Array, starts: Array, plan: Any, a_window: int, both: bool) -> Array:
    """Return the sum of squares of every sequence's counts, (n,)."""
    table, out = np.zeros(plan[7]), np.empty(starts.size - 1)
    touched, words, used = scratch(starts, plan, a_window, both)
    for i in range(starts.size - 1):
        row = codes[starts[i] : starts[i + 1]]
        n, _ = walk(row, plan, COUNT, 1.0, table, touched, 0, words, used)
        if both:
            n, _ = walk(other_strand(row, plan[0]), plan, COUNT, 1.0, table, touched, n, words, used)
        out[i] = 0.0
        for j in range(n):
            out[i] += table[touched[j]] ** 2
            table[touched[j]] = 0.0
    return out


@compiled()
def spread(codes: Array, starts: Array, plan: Any, a_window: int, both: bool, amounts: Array) -> Array:
    """Return the sum over sequences of ``amounts`` times their counts, (n_places,)."""
    table, touched = np.zeros(plan[7]), np.empty(0, np.int64)
    words, used = np.empty(a_window, np.int64), np.empty(a_window, np.int64)
    for i in range(starts.size - 1):
        if amounts[i] != 0.0:
            row = codes[starts[i] : starts[i + 1]]
            walk(row, plan, SPREAD, amounts[i], table, touched, 0, words, used)
            if both:
                walk(other_strand(row, plan[0]), plan, SPREAD, amounts[i], table, touched, 0, words, used)
    return table


@compiled()
def gather(codes: Array, starts: Array, plan: Any, a_window: int, both: bool, table: Array) -> Array:
    """Return the sum of the entries of ``table`` at the places of every sequence, (n,)."""
    out, touched = np.empty(starts.size - 1), np.empty(0, np.int64)
    words, used = np.empty(a_window, np.int64), np.empty(a_window, np.int64)
    for i in range(starts.size - 1):
        row = codes[starts[i] : starts[i + 1]]
        out[i] = walk(row, plan, GATHER, 1.0, table, touched, 0, words, used)[1]
        if both:
            out[i] += walk(other_strand(row, plan[0]), plan, GATHER, 1.0, table, touched, 0, words, used)[1]
    return out
