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


@compiled(inline="always")
def touch(
    mode: int, place: int, weight: float, amount: float, table: Array, touched: Array, n: int
) -> tuple[int, float]:
    """Count a place (and remember it in ``touched`` if it is new), add to it, or read it."""
    if mode == GATHER:
        return n, weight * table[place]
    if mode == SPREAD:
        table[place] += amount * weight
        return n, 0.0
    if table[place] == 0.0:
        touched[n] = place
        n += 1
    table[place] += weight
    return n, 0.0


@compiled()
def walk_one_length(
    row: Array, length: int, size: int, power: int, mode: int, amount: float, table: Array, touched: Array, n: int
) -> tuple[int, float]:
    """Go through the windows of one length: from one to the next a letter goes and a letter comes."""
    code, known, total = 0, 0, 0.0
    for i in range(row.size):
        if row[i] == UNKNOWN:
            code, known = 0, 0
            continue
        code, known = code * size + row[i], known + 1
        if known > length:
            code -= row[i - length] * power
        if known >= length:
            n, found = touch(mode, code, 1.0, amount, table, touched, n)
            total += found
    return n, total


@compiled(inline="always")
def words_of(
    row: Array, start: int, code: int, longest: int, size: int, masks: Array, kept: int, mismatches: int,
    words: Array, used: Array,
) -> int:  # fmt: skip
    """Write the words that a window shows, which has this code, into ``words``; return how many."""
    if masks.shape[1]:
        for mask in range(masks.shape[0]):
            word = 0
            for at in masks[mask]:
                word = word * size + row[start + at]
            words[mask] = mask * kept + word
        return masks.shape[0]
    if mismatches:
        return neighbors_of(code, longest, size, mismatches, words, used)
    words[0] = code
    return 1


@compiled()
def walk(
    row: Array, plan: Any, mode: int, amount: float, table: Array, touched: Array, n: int, words: Array, used: Array
) -> tuple[int, float]:
    """Go through the windows of one sequence.

    COUNT adds roots of weights to places of ``table`` and remembers new places in ``touched`` from ``n`` on; SPREAD
    adds ``amount`` times them; GATHER sums the entries of ``table``, so often as they count. Returns how many places
    are remembered, and the sum.
    """
    size, lengths, roots, masks, mismatches, positional, shift, n_places, seed, powers, a_place, kept = plan
    if lengths.size == 1 and not masks.shape[1] and not mismatches and not positional and powers[0] <= n_places:
        return walk_one_length(row, lengths[0], size, powers[0], mode, amount, table, touched, n)
    total = 0.0
    for start in range(row.size):
        offset, code, done = 0, 0, 0
        for slot in range(lengths.size):
            if start + lengths[slot] > row.size:
                break
            while done < lengths[slot] and row[start + done] != UNKNOWN:
                code = code * size + row[start + done]
                done += 1
            if done < lengths[slot]:
                break
            n_words = words_of(row, start, offset + code, lengths[-1], size, masks, kept, mismatches, words, used)
            for i in range(n_words):
                for near in range(2 * shift + 1):  # places before the first are places too
                    full = np.uint64(words[i])
                    if positional:
                        full += np.uint64(start + near) * np.uint64(a_place)
                    place = place_of(full, n_places, seed)
                    n, found = touch(mode, place, roots[slot], amount, table, touched, n)
                    total += found
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
