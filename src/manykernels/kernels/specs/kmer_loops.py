"""The loop over the windows of sequences: places of k-mers for counting, adding or reading."""

from typing import Any

import numpy as np

from manykernels.compiled import compiled
from manykernels.validation.arrays import Array

UNKNOWN = 255  # the number of a letter outside the alphabet
# What windows show, as `Kmers` makes it: letters, lengths, weights, masks, mismatches, positional, shift, places and
# their mask, seed, powers, places at a position, letters that are kept.
Plan = tuple[int, Array, Array, Array, int, bool, int, int, np.uint64, np.uint64, Array, int, int]
Room = tuple[int, Array, Array, Array, Array]  # windows at once, and room for their places, roots and words
AT_ONCE = 2**13  # places that are written before they are used: they stay in the nearest cache


@compiled(inline="always")
def place_of(word: Any, n_places: int, mask: Any, seed: Any) -> Any:
    """Return the place of a word: the number where there are places enough, else a hash of it (splitmix64).

    ``mask`` is ``n_places - 1`` of a power of two, else 0: it takes the place of a division.
    """
    if word < np.uint64(n_places):
        return np.uint32(word)
    h = word + (seed + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    h = h ^ (h >> np.uint64(31))
    return np.uint32(h & mask) if mask else np.uint32(h % np.uint64(n_places))


@compiled()
def neighbors_of(word: int, length: int, size: int, mismatches: int, out: Array, used: Array) -> int:
    """Write all words within a number of substitutions into ``out``; return the count."""
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
def words_of(
    row: Array, start: int, code: int, longest: int, size: int, masks: Array, kept: int, mismatches: int,
    words: Array, used: Array,
) -> int:  # fmt: skip
    """Write the words of a window with a code into ``words``; return the count."""
    if masks.shape[1]:
        for mask in range(masks.shape[0]):
            word = 0
            for j in range(masks.shape[1]):
                word = word * size + row[start + masks[mask, j]]
            words[mask] = mask * kept + word
        return masks.shape[0]
    if mismatches:
        return neighbors_of(code, longest, size, mismatches, words, used)
    words[0] = code
    return 1


@compiled()
def write_codes(
    row: Array, first: int, last: int, length: int, size: int, power: int, offset: int, places: Array, n: int
) -> int:
    """Write the places of windows of a length with codes as places, by a rolling code."""
    code, known = np.int64(0), 0
    for i in range(first, last):
        letter = np.int64(row[i])
        if letter == UNKNOWN:
            code, known = np.int64(0), 0
            continue
        code, known = code * size + letter, known + 1
        if known > length:
            code -= np.int64(row[i - length]) * power
        if known >= length:
            places[n] = offset + code
            n += 1
    return n


@compiled()
def write_places(
    row: Array, first: int, last: int, plan: Plan, places: Array, roots: Array, words: Array, used: Array
) -> int:
    """Write the places of the windows that begin at letters ``first`` to ``last - 1``, and the roots of their weights.

    Returns how many places there are.
    """
    size, lengths, weights, masks, mismatches, positional, shift, n_places, mask, seed, powers, a_place, kept = plan
    several, n, offset = masks.shape[1] > 0 or mismatches > 0, 0, 0
    for slot in range(lengths.size):
        length, power, root = lengths[slot], powers[slot], weights[slot]
        code, known, n_before, end = 0, 0, n, min(last + length - 1, row.size)
        if not several and not positional and offset + power <= n_places:
            n = write_codes(row, first, end, length, size, power, offset, places, n)
            roots[n_before:n] = root
            offset += power
            continue
        for i in range(first, end):
            if row[i] == UNKNOWN:
                code, known = 0, 0
                continue
            code, known = code * size + row[i], known + 1
            if known > length:
                code -= row[i - length] * power
            if known < length:
                continue
            start = i - length + 1
            n_words = words_of(row, start, code, length, size, masks, kept, mismatches, words, used) if several else 1
            for w in range(n_words):
                word = np.uint64(words[w] if several else offset + code)
                if positional:
                    for near in range(2 * shift + 1):  # places before the first are places too
                        full = word + np.uint64(start + near) * np.uint64(a_place)
                        places[n] = place_of(full, n_places, mask, seed)
                        n += 1
                else:
                    places[n] = place_of(word, n_places, mask, seed)
                    n += 1
        roots[n_before:n] = root
        offset += power
    return n


@compiled()
def other_strand(row: Array, size: int) -> Array:
    """Return the reverse complement, for an alphabet paired from both ends."""
    other = row[::-1].copy()
    for i in range(other.size):
        if other[i] != UNKNOWN:
            other[i] = size - 1 - other[i]
    return other


@compiled()
def room_of(plan: Plan, a_window: int) -> tuple[int, Array, Array, Array, Array]:
    """Return how many windows are written at once, and room for their places, roots and words."""
    each = a_window * plan[1].size * (2 * plan[6] + 1)
    step = max(1, AT_ONCE // each)
    return (
        step, np.empty(step * each, np.uint32), np.ones(step * each), np.empty(a_window, np.int64),
        np.empty(a_window, np.int64),
    )  # fmt: skip


@compiled()
def table_of(starts: Array, plan: Plan, a_window: int, strands: int) -> tuple[Array, Array]:
    """Return an empty hash table for the places of a single sequence: keys of sequence and place, and counts."""
    longest = 1
    for i in range(starts.size - 1):
        longest = max(longest, starts[i + 1] - starts[i])
    most = min(longest * a_window * plan[1].size * (2 * plan[6] + 1) * strands, plan[7])
    size = 2
    while size < 3 * most:
        size *= 2
    return np.full(size, -1, np.int64), np.empty(size)


@compiled()
def count_row(
    row: Array,
    owner: int,
    plan: Plan,
    room: Room,
    table: tuple[Array, Array],
    touched: Array,
    n_touched: int,
) -> tuple[int, float]:
    """Count the places of a sequence in the table; return the count, and the growth of the squared sum.

    New slots are written to ``touched`` as long as there is room.
    """
    step, places, roots, words, used = room
    keys, counts = table
    last, squares = keys.size - 1, 0.0
    for first in range(0, row.size, step):
        n = write_places(row, first, min(first + step, row.size), plan, places, roots, words, used)
        for j in range(n):
            key, root = (np.int64(owner) << 32) | np.int64(places[j]), roots[j]
            slot = ((np.int64(places[j]) * 2654435761) >> 7) & last
            while keys[slot] != key and keys[slot] >> 32 == owner:
                slot = (slot + 1) & last
            if keys[slot] != key:
                keys[slot], counts[slot] = key, 0.0
                if n_touched < touched.size:
                    touched[n_touched] = slot
                n_touched += 1
            count = counts[slot]
            squares += root * (2.0 * count + root)
            counts[slot] = count + root
    return n_touched, squares


@compiled()
def count_kmers(
    codes: Array, starts: Array, plan: Plan, a_window: int, strands: int, normalized: bool
) -> tuple[Array, Array, Array]:
    """Return counts of k-mers as the data, indices (unsorted) and ends of a CSR matrix."""
    room, table = room_of(plan, a_window), table_of(starts, plan, a_window, strands)
    keys, counts = table
    touched = np.empty(keys.size, np.int64)
    size = 16 + 2 * codes.size
    data, indices, ends = np.empty(size), np.empty(size, dtype=np.int32), np.zeros(starts.size, dtype=np.int64)
    filled = 0
    for i in range(starts.size - 1):
        row = codes[starts[i] : starts[i + 1]]
        n, squares = count_row(row, i, plan, room, table, touched, 0)
        if strands == 2:
            n, more = count_row(other_strand(row, plan[0]), i, plan, room, table, touched, n)
            squares += more
        if filled + n > size:
            size = 2 * (filled + n)
            wider, longer = np.empty(size), np.empty(size, dtype=np.int32)
            wider[:filled], longer[:filled] = data[:filled], indices[:filled]
            data, indices = wider, longer
        scale = 1.0 / np.sqrt(squares) if normalized and squares > 0.0 else 1.0
        for j in range(n):
            data[filled + j], indices[filled + j] = counts[touched[j]] * scale, keys[touched[j]] & 0xFFFFFFFF
        filled += n
        ends[i + 1] = filled
    return data[:filled], indices[:filled], ends


@compiled()
def squares_of(codes: Array, starts: Array, plan: Plan, a_window: int, strands: int) -> Array:
    """Return the sum of squares of every sequence's counts, (n,)."""
    room, table, out = room_of(plan, a_window), table_of(starts, plan, a_window, strands), np.empty(starts.size - 1)
    touched = np.empty(0, np.int64)
    for i in range(starts.size - 1):
        row = codes[starts[i] : starts[i + 1]]
        _, out[i] = count_row(row, i, plan, room, table, touched, 0)
        if strands == 2:
            out[i] += count_row(other_strand(row, plan[0]), i, plan, room, table, touched, 0)[1]
    return out


@compiled()
def spread_row(row: Array, plan: Plan, room: Room, amount: float, table: Array) -> None:
    """Add ``amount`` times the counts of a sequence to the entries of ``table``."""
    step, places, roots, words, used = room
    for first in range(0, row.size, step):
        n = write_places(row, first, min(first + step, row.size), plan, places, roots, words, used)
        if plan[1].size == 1:
            for j in range(n):
                table[places[j]] += amount
        else:
            for j in range(n):
                table[places[j]] += amount * roots[j]


@compiled()
def gather_row(row: Array, plan: Plan, room: Room, table: Array) -> float:
    """Return the sum of the entries of ``table`` at the places of a sequence."""
    step, places, roots, words, used = room
    total = 0.0
    for first in range(0, row.size, step):
        n = write_places(row, first, min(first + step, row.size), plan, places, roots, words, used)
        if plan[1].size == 1:
            for j in range(n):
                total += table[places[j]]
        else:
            for j in range(n):
                total += roots[j] * table[places[j]]
    return total


@compiled()
def spread(codes: Array, starts: Array, plan: Plan, a_window: int, strands: int, amounts: Array) -> Array:
    """Return the sum over sequences of ``amounts`` times their counts, (n_places,)."""
    table, room = np.zeros(plan[7]), room_of(plan, a_window)
    for i in range(starts.size - 1):
        if amounts[i] != 0.0:
            row = codes[starts[i] : starts[i + 1]]
            spread_row(row, plan, room, amounts[i], table)
            if strands == 2:
                spread_row(other_strand(row, plan[0]), plan, room, amounts[i], table)
    return table


@compiled(fastmath={"reassoc", "contract"})
def spread_several(codes: Array, starts: Array, plan: Plan, a_window: int, strands: int, amounts: Array) -> Array:
    """Return the sums over sequences of every column of ``amounts`` (n, k) times their counts, (n_places, k)."""
    table, room = np.zeros((plan[7], amounts.shape[1])), room_of(plan, a_window)
    step, places, roots, words, used = room
    for i in range(starts.size - 1):
        row, own = codes[starts[i] : starts[i + 1]], amounts[i]
        for strand in range(strands):
            letters = other_strand(row, plan[0]) if strand else row
            for first in range(0, row.size, step):
                n = write_places(letters, first, min(first + step, row.size), plan, places, roots, words, used)
                for j in range(n):
                    sums, root = table[places[j]], roots[j]
                    for c in range(own.size):
                        sums[c] += root * own[c]
    return table


@compiled()
def gather(codes: Array, starts: Array, plan: Plan, a_window: int, strands: int, table: Array) -> Array:
    """Return the sum of the entries of ``table`` at the places of every sequence, (n,)."""
    out, room = np.empty(starts.size - 1), room_of(plan, a_window)
    for i in range(starts.size - 1):
        row = codes[starts[i] : starts[i + 1]]
        out[i] = gather_row(row, plan, room, table)
        if strands == 2:
            out[i] += gather_row(other_strand(row, plan[0]), plan, room, table)
    return out


@compiled()
def list_places(codes: Array, starts: Array, plan: Plan, a_window: int, strands: int) -> tuple[Array, Array, Array]:
    """Return the places of all sequences in turn, the roots of weights (none if all 1), and ends."""
    step, places, roots, words, used = room_of(plan, a_window)
    several = plan[1].size > 1
    size = 16 + codes.size * strands
    out, weights, ends = np.empty(size, np.uint32), np.empty(size if several else 0), np.zeros(starts.size, np.int64)
    filled = 0
    for i in range(starts.size - 1):
        row = codes[starts[i] : starts[i + 1]]
        for strand in range(strands):
            letters = other_strand(row, plan[0]) if strand else row
            for first in range(0, row.size, step):
                n = write_places(letters, first, min(first + step, row.size), plan, places, roots, words, used)
                if filled + n > size:
                    size = 2 * (filled + n)
                    longer = np.empty(size, np.uint32)
                    for j in range(filled):
                        longer[j] = out[j]
                    out = longer
                    if several:
                        wider = np.empty(size)
                        for j in range(filled):
                            wider[j] = weights[j]
                        weights = wider
                for j in range(n):
                    out[filled + j] = places[j]
                    if several:
                        weights[filled + j] = roots[j]
                filled += n
        ends[i + 1] = filled
    return out[:filled].copy(), weights[: filled if several else 0].copy(), ends


@compiled()
def spread_listed(places: Array, roots: Array, ends: Array, amounts: Array, n_places: int) -> Array:
    """Return the sum over sequences of ``amounts`` times their counts, (n_places,), from a list of places."""
    table = np.zeros(n_places)
    for i in range(ends.size - 1):
        amount = amounts[i]
        if amount != 0.0:
            if roots.size:
                for j in range(ends[i], ends[i + 1]):
                    table[places[j]] += amount * roots[j]
            else:
                for j in range(ends[i], ends[i + 1]):
                    table[places[j]] += amount
    return table


@compiled()
def gather_listed(places: Array, roots: Array, ends: Array, table: Array) -> Array:
    """Return the sum of the entries of ``table`` at the places of every sequence, (n,), from a list of places."""
    out = np.empty(ends.size - 1)
    for i in range(out.size):
        total = 0.0
        if roots.size:
            for j in range(ends[i], ends[i + 1]):
                total += roots[j] * table[places[j]]
        else:
            for j in range(ends[i], ends[i + 1]):
                total += table[places[j]]
        out[i] = total
    return out
