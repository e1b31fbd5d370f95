// Scores, prediction sets and hashes of ids, ahead of time. `numpy.py` is the reference: every
// number here equals its number to the last bit.
//
// Exactness. A probability is rounded once to a multiple of 2^-52 (`fixed`). Sums of such numbers
// that stay below 2 are exact in float64, in any order. Labels are ranked by these numbers, largest
// first, equals by smaller index. Scores do not fall from one rank to the next, so with one
// threshold for all labels of a row a prediction set is the first few labels in this order.
//
// Layout. Short rows are worked on in blocks side by side: number j of row i lies at [j * R + i]. One
// instruction then treats the same label of several rows, however few labels there are. They are
// sorted by a network and scored rank by rank. Long rows are read one after the other.
//
// In long rows a height is *guessed* with rounded sums, such that the labels above it are the set;
// what that pass saw then *verifies* it, by more than rounding may matter, or one exact pass does: the
// last label above fits, the first one below does not. A guess that fails costs time and never a wrong
// set: `decide` sorts such a row.
//
// Compile with -ffp-contract=off and without -ffast-math: (x + 1) - 1 must round twice.

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

#if defined(_MSC_VER)
#define SIMD __pragma(loop(ivdep))
#define SIMD_SUM __pragma(loop(ivdep))
#define RESTRICT __restrict
#define PREFETCH(address)
#define HOT __declspec(noinline)
#else
#define SIMD _Pragma("omp simd")
#define SIMD_SUM _Pragma("omp simd reduction(+ : total)")
#define RESTRICT __restrict__
#define PREFETCH(address) __builtin_prefetch(address, 0, 2)
#define HOT __attribute__((noinline)) // compilers vectorise these loops best on their own
#endif

namespace {

typedef int64_t I;
constexpr double INF = std::numeric_limits<double>::infinity();

constexpr I SHORT = 48;       // rows of at most so many labels are worked on side by side
constexpr I PACKED = 1 << 10; // with at most so many, value and index fit into 63 bits
constexpr double SURE = 4.9e-3; // numpy decides on rows whose sum is farther from 1

template <class T> using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
template <class To, class From> inline To cast(From x) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To y;
    std::memcpy(&y, &x, sizeof y);
    return y;
}

// Round to a multiple of 2^-52, half to even, in the number's own type: an addition after which the
// type holds nothing finer. From the edge on a number is such a multiple.
template <class T> inline T fixed(T x) {
    constexpr T EDGE = sizeof(T) == 4 ? (T)0x1p-29 : (T)1;
    return x < EDGE ? (x + EDGE) - EDGE : x;
}
// The largest number below a multiple of 2^-52 that is at least 0; -1 below 0.
template <class T> inline T below(T x) { return x > 0 ? cast<T>((Bits<T>)(cast<Bits<T>>(x) - 1)) : (T)-1; }
inline double capped(double mass) { return mass < 1.0 ? mass : 1.0; }

// Scores ------------------------------------------------------------------------------------------

enum Rule { LEQ, LEQ_TOP1, UNTIL };

struct Formula {
    I C;
    const double *penalty; // what ranks 0 to C add
    bool by_top;           // SAPS: the largest probability and a step for each rank
    Rule rule;
};

// The operations and their order are those of `numpy.Formula.scores`.
inline double score(const Formula &f, double before, double own, I rank, double top, double u) {
    if (f.by_top)
        return rank == 1 ? u * top : top + ((double)(rank - 2) + u) * f.penalty[2];
    double upto = rank == f.C ? 1.0 : capped(before + own);
    before = capped(before);
    return (before + u * (upto - before)) + f.penalty[rank];
}

// Whether the label of a rank belongs to the set. Never true again once it was false.
inline bool fits(const Formula &f, double before, double own, I rank, double top, double u,
                 double q) {
    if (f.rule != LEQ && rank == 1) return true;
    if (score(f, before, own, rank, top, u) <= q) return true;
    // "until": the score of the rank before, without its random part, does not reach q.
    return f.rule == UNTIL && score(f, before, 0.0, rank - 1, top, 1.0) < q;
}

// Blocks of rows ----------------------------------------------------------------------------------
//
// Short rows are worked on side by side: number j of row i of a block lies at s[j * R + i]. One
// instruction then treats the same label of a group of rows, however few labels there are.

template <class T> constexpr int G = 64 / sizeof(T); // rows of a group: one register of AVX-512

template <class T> T *aligned(std::vector<T> &memory) { // to 64 bytes
    return reinterpret_cast<T *>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
}

template <class T, bool FIXED = true> struct Columns {
    static constexpr int R = 4 * G<T>; // rows
    const I C;
    std::vector<T> memory;
    T *const s; // before the first label of a row stands 2, after the last one -1

    explicit Columns(I C) : C(C), memory((C + 2) * R + 64), s(aligned(memory) + R) {
        std::fill_n(s - R, R, (T)2);
        std::fill_n(s + C * R, R, (T)-1);
    }

    // Read R rows, as multiples of 2^-52 where FIXED. Returns whether all are surely probabilities.
    HOT bool read(const T *RESTRICT p) {
        T *RESTRICT to = s;
        T total[R], least[R];
        for (int i = 0; i < R; i++) total[i] = (T)-0.0, least[i] = 1;
        for (I j = 0; j < C; j++) {
            SIMD for (int i = 0; i < R; i++) {
                const T x = p[i * C + j];
                total[i] += x;
                least[i] = x < least[i] ? x : least[i];
                to[j * R + i] = FIXED ? fixed(x) : x;
            }
        }
        int sure = 0;
        for (int i = 0; i < R; i++) sure += std::fabs(total[i] - 1) < (T)SURE && least[i] >= 0;
        return sure == R;
    }
};

// Long rows are worked on one after the other. A row is copied as multiples of 2^-52; behind its last
// label follow numbers below all heights, so that loops over the copy have no rest. They keep a sum
// for each of some lanes.

template <class T> constexpr int LANES = 64 / sizeof(T);
// In which a lane counts: plain x86-64 has no int64 to add one by one where a comparison holds.
template <class T> using Count = std::conditional_t<sizeof(T) == 4, int32_t, double>;

// Join N lanes by halves, which waits for fewer steps than one after the other.
template <int N, class T, class Join> inline T joined(T *lanes, Join join) {
    if constexpr (N > 1) {
        for (int l = 0; l < N / 2; l++) lanes[l] = join(lanes[l], lanes[l + N / 2]);
        joined<N / 2>(lanes, join);
    }
    return lanes[0];
}
template <int N, class T> inline T sum_of(T (&x)[N]) { return joined<N>(x, [](T a, T b) { return a + b; }); }
template <int N, class T> inline T least_of(T (&x)[N]) { return joined<N>(x, [](T a, T b) { return a < b ? a : b; }); }
template <int N, class T> inline T largest_of(T (&x)[N]) { return joined<N>(x, [](T a, T b) { return a > b ? a : b; }); }

// Read a row once: check it, and call each(index, lane, number, whether it was seen before) for all
// labels. Returns whether it is surely one of probabilities. Sums of at most 1024 numbers are rounded
// as these are: they err by less than 7e-5, for which SURE leaves room. A NaN makes the total a NaN.
template <class T, class Each> inline bool weigh(const T *RESTRICT r, I C, T &largest, Each each) {
    double total = 0;
    T least[LANES<T>], top[LANES<T>], sum[LANES<T>];
    for (int l = 0; l < LANES<T>; l++) least[l] = top[l] = r[l];
    const auto step = [&](I j, int skip) {
        SIMD for (int l = 0; l < LANES<T>; l++) {
            const T one = r[j + l];
            sum[l] += l < skip ? (T)0 : one;
            least[l] = one < least[l] ? one : least[l];
            top[l] = one > top[l] ? one : top[l];
            each(j, l, one, l < skip);
        }
    };
    for (I j = 0; j < C;) {
        const I to = std::min<I>(j + 1024, C);
        for (int l = 0; l < LANES<T>; l++) sum[l] = 0;
        for (; j + LANES<T> <= to; j += LANES<T>) step(j, 0);
        if (j < to) step(to - LANES<T>, LANES<T> - (int)(to - j)), j = to; // reads some again
        total += (double)sum_of(sum);
    }
    largest = largest_of(top);
    return std::fabs(total - 1.0) < SURE && least_of(least) >= 0;
}

// What lies above a height and next to it on either side; the sum is rounded unless it is EXACT.
struct Cut {
    I n;
    double mass, last, next;
};

template <bool EXACT, class T> struct Lanes {
    std::conditional_t<EXACT, double, T> mass[LANES<T>];
    Count<T> n[LANES<T>];
    T last[LANES<T>], next[LANES<T>];
    Lanes() {
        for (int l = 0; l < LANES<T>; l++) n[l] = 0, mass[l] = 0, last[l] = 2, next[l] = -1;
    }
    void take(int l, T one, T height) {
        const T in = one > height ? one : (T)0;
        const T above = one > height ? one : (T)2, under = one > height ? (T)-1 : one;
        n[l] += one > height;
        mass[l] += in;
        last[l] = above < last[l] ? above : last[l];
        next[l] = under > next[l] ? under : next[l];
    }
    Cut cut() { return {(I)sum_of(n), (double)sum_of(mass), (double)least_of(last), (double)largest_of(next)}; }
};

template <bool EXACT, class T> HOT Cut cut_at(const T *RESTRICT x, I C, T height) {
    Lanes<EXACT, T> lanes;
    for (I j = 0; j < C; j += LANES<T>)
        SIMD for (int l = 0; l < LANES<T>; l++) lanes.take(l, x[j + l], height);
    return lanes.cut();
}

// Copy a row, check it and cut it.
template <class T> HOT bool copy_row(const T *RESTRICT r, I C, T *RESTRICT x, T &largest, T height, Cut &cut) {
    Lanes<false, T> lanes;
    const bool sure = weigh(r, C, largest, [&](I j, int l, T one, bool seen) {
        const T rounded = fixed(one);
        x[j + l] = rounded;
        lanes.take(l, seen ? (T)-1 : rounded, height);
    });
    cut = lanes.cut();
    return sure;
}

// Call work(rows, number of the first one, how many) for each block of rows that was read, the last
// row again where there are too few; stop where rows may not be probabilities.
template <class Block, class T, class Work> bool for_blocks(const T *p, I n, Block &block, Work work) {
    constexpr int R = Block::R;
    const I C = block.C;
    std::vector<T> tail(n % R ? C * R : 0);
    for (I at = 0; at < n; at += R) {
        const I many = std::min<I>(R, n - at);
        const T *rows = p + at * C;
        if (many < R) {
            for (I i = 0; i < R; i++) std::copy_n(rows + std::min(i, many - 1) * C, C, tail.data() + i * C);
            rows = tail.data();
        }
        if (!block.read(rows)) return false;
        work(rows, at, many);
    }
    return true;
}

// What some rows of a block are given, that of the last row again where there are too few.
template <int R, class T, class S> void take(const S *RESTRICT given, I many, T *RESTRICT taken) {
    for (I i = 0; i < many; i++) taken[i] = (T)given[i];
    for (I i = many; i < R; i++) taken[i] = taken[many - 1];
}

// Scores of one label of each row -----------------------------------------------------------------
//
// A label stands before another one if it is more probable, or as probable with a smaller index: up
// to the index of a label those above the next smaller number count, from there on those above it.

// Mass and number of the labels before a label, and the largest number, for a group of rows.
template <class T>
HOT void places(const T *RESTRICT s, I C, const T *RESTRICT own, const Bits<T> *RESTRICT y, double *RESTRICT before,
                double *RESTRICT rank, double *RESTRICT largest) {
    T lower[G<T>], top[G<T>];
    double mass[G<T>];
    Bits<T> ahead[G<T>];
    for (int i = 0; i < G<T>; i++) lower[i] = below(own[i]), top[i] = 0, mass[i] = 0, ahead[i] = 0;
    for (I j = 0; j < C; j++) {
        const T *r = s + j * Columns<T>::R;
        const Bits<T> index = (Bits<T>)j;
        SIMD for (int i = 0; i < G<T>; i++) {
            const T x = r[i], height = index < y[i] ? lower[i] : own[i], in = x > height ? x : (T)0;
            mass[i] += (double)in;
            ahead[i] += x > height;
            top[i] = x > top[i] ? x : top[i];
        }
    }
    for (int i = 0; i < G<T>; i++) before[i] = mass[i], rank[i] = (double)ahead[i] + 1, largest[i] = capped(top[i]);
}

// The same for one long row, which is checked.
template <class T> HOT bool place(const T *RESTRICT r, I C, I y, double &before, I &rank, T &largest) {
    const T own = fixed(r[y]);
    double mass[LANES<T>];
    Count<T> above[LANES<T>], from[LANES<T>];
    for (int l = 0; l < LANES<T>; l++) above[l] = from[l] = 0, mass[l] = 0;
    const bool sure = weigh(r, C, largest, [&](I, int l, T one, bool seen) {
        const T x = seen ? (T)-1 : fixed(one), in = x > own ? x : (T)0;
        above[l] += x > own, from[l] += x >= own;
        mass[l] += (double)in;
    });
    before = sum_of(mass), rank = 1 + (I)sum_of(above);
    const bool tied = (I)sum_of(from) > rank;
    for (I j = 0; tied && j < y; j++) // equals of smaller index
        if (fixed(r[j]) == own) before += own, rank++;
    return sure;
}

template <class T>
bool scores_of_labels(const T *p, I n, const Formula &f, const I *y, const double *u, double *out) {
    const I C = f.C;
    for (I i = 0; C > SHORT && i < n; i++) {
        double before;
        I rank;
        T top;
        if (!place(p + i * C, C, y[i], before, rank, top)) return false;
        out[i] = score(f, before, fixed(p[i * C + y[i]]), rank, capped(fixed(top)), u ? u[i] : 1.0);
    }
    if (C > SHORT) return true;
    constexpr int R = Columns<T>::R;
    Columns<T> block(f.C);
    double v[R];
    std::fill_n(v, R, 1.0);
    return for_blocks(p, n, block, [&](const T *, I at, I many) {
        const T *RESTRICT s = block.s;
        T own[R];
        Bits<T> label[R];
        double mass[R], rank[R], top[R], found[R];
        if (u) take<R>(u + at, many, v);
        take<R>(y + at, many, label);
        SIMD for (int i = 0; i < R; i++) own[i] = s[(I)label[i] * R + i];
        for (int g = 0; g < R; g += G<T>) places(s + g, f.C, own + g, label + g, mass + g, rank + g, top + g);
        SIMD for (int i = 0; i < R; i++) found[i] = score(f, mass[i], own[i], (I)rank[i], top[i], v[i]);
        std::copy_n(found, many, out + at);
    });
}

// Ends of sets with one threshold for all labels of a row -----------------------------------------
//
// A set is the first few labels: it is told by how many and by the value of the next label. Labels
// above it are in, and where these are too few, equals of smaller index. Two ways find it.

template <class T, int R> struct Ends {
    double u[R], q[R]; // what the rows are given
    I size[R];
    T next[R];
    T tied[R]; // 1 where some labels in the set may equal the next one
};

// Short rows are sorted by a network and scored rank by rank.

typedef std::pair<int32_t, int32_t> Pair;

// Batcher's sorting network, largest first: merges runs of 1, 2, 4, ... places.
std::vector<Pair> network(I n) {
    std::vector<Pair> pairs;
    for (I run = 1; run < n; run *= 2)
        for (I gap = run; gap; gap /= 2)
            for (I start = gap % run; start < n - gap; start += 2 * gap)
                for (I a = start; a < std::min(start + gap, n - gap); a++)
                    if (a / (2 * run) == (a + gap) / (2 * run)) pairs.push_back({(int32_t)a, (int32_t)(a + gap)});
    return pairs;
}

template <int R, class T> HOT void sort_columns(T *s, const std::vector<Pair> &pairs) {
    for (const Pair &pair : pairs) {
        T *RESTRICT a = s + (I)pair.first * R;
        T *RESTRICT b = s + (I)pair.second * R;
        SIMD for (int i = 0; i < R; i++) {
            // As integers: bits of numbers of at least 0 have their order, and a maximum of
            // integers is one instruction, whatever compilers think of NaN.
            Bits<T> x = cast<Bits<T>>(a[i]), z = cast<Bits<T>>(b[i]);
            a[i] = cast<T>(x > z ? x : z);
            b[i] = cast<T>(x > z ? z : x);
        }
    }
}

// Scores of sorted columns, rank by rank.
template <int R> struct Scan {
    double u[R], top[R], mass[R], upto[R];
    double score[R]; // at the rank that was read last
    double bare[R];  // what "until" compares: the score of the rank before without its random part

    template <class Value> void start(Value value) { // with the values of rank 1
        for (int i = 0; i < R; i++) top[i] = capped(value(i)), mass[i] = upto[i] = u[i] - u[i]; // no call of memset
    }
    template <bool BY_TOP, bool UNTIL_TOO, class Value> void read(const Formula &f, I k, Value value) {
        const double pen = f.penalty[k], pen_before = f.penalty[k - 1], step = f.penalty[2], steps = (double)(k - 2);
        SIMD for (int i = 0; i < R; i++) {
            const double before = upto[i];
            mass[i] += value(i);
            upto[i] = k == f.C ? 1.0 : capped(mass[i]);
            score[i] = (before + u[i] * (upto[i] - before)) + pen;
            if (UNTIL_TOO) bare[i] = k > 1 ? before + pen_before : INF;
            if (BY_TOP) {
                score[i] = k == 1 ? u[i] * top[i] : top[i] + (steps + u[i]) * step;
                if (UNTIL_TOO) bare[i] = k > 1 ? top[i] + steps * step : INF;
            }
        }
    }
};

// How many labels of some sorted columns fit. They are the first ones, whatever the rule.
template <bool BY_TOP, bool UNTIL_TOO, class T>
HOT void count_fitting(const T *RESTRICT s, const Formula &f, const double *u, const double *RESTRICT q,
                       double *RESTRICT fitting) {
    Scan<G<T>> scan;
    double n[G<T>];
    for (int i = 0; i < G<T>; i++) scan.u[i] = u[i], n[i] = u[i] - u[i];
    scan.start([s](int i) { return (double)s[i]; });
    for (I k = 1; k <= f.C; k++) {
        const T *r = s + (k - 1) * Columns<T>::R;
        scan.template read<BY_TOP, UNTIL_TOO>(f, k, [r](int i) { return (double)r[i]; });
        SIMD for (int i = 0; i < G<T>; i++) {
            bool in = scan.score[i] <= q[i];
            if (UNTIL_TOO) in |= scan.bare[i] < q[i];
            n[i] += in ? 1.0 : 0.0;
        }
    }
    const double least = f.rule == LEQ ? 0.0 : 1.0;
    SIMD for (int i = 0; i < G<T>; i++) fitting[i] = n[i] > least ? n[i] : least;
}

template <class T> struct Sorted : Columns<T> {
    using Columns<T>::R;
    const Formula &f;
    const std::vector<Pair> pairs;
    explicit Sorted(const Formula &f) : Columns<T>(f.C), f(f), pairs(network(f.C)) {}

    void find(const T *, Ends<T, R> &ends) {
        T *RESTRICT s = Columns<T>::s;
        double fitting[R];
        sort_columns<R>(s, pairs);
        const bool until = f.rule == UNTIL;
        const auto count = f.by_top ? (until ? count_fitting<true, true, T> : count_fitting<true, false, T>)
                                    : (until ? count_fitting<false, true, T> : count_fitting<false, false, T>);
        for (int g = 0; g < R; g += G<T>) count(s + g, f, ends.u + g, ends.q + g, fitting + g);
        SIMD for (int i = 0; i < R; i++) {
            ends.size[i] = (I)fitting[i];
            ends.next[i] = s[ends.size[i] * R + i];
            ends.tied[i] = s[(ends.size[i] - 1) * R + i] == ends.next[i] ? 1 : 0;
        }
    }
};

// Of long rows a height is guessed, such that the labels above it are the set. A pass counts and
// weighs the labels above a height, with rounded sums. If the last of them passes the threshold, the
// end of the set lies at that label or above; if the next label fits too, it lies below that one. The
// next height is interpolated between both (regula falsi); as long as one of them is missing, it is a
// step as wide as earlier rows took. If all fit but the last label, it is taken out without another
// pass. Where the scores around the end come so close to the threshold that rounding may matter, or
// the guess was not tried, an exact pass verifies it.

template <class T> struct Guessed {
    static constexpr int R = 32; // rows
    const Formula &f;
    const I C, width = (C + LANES<T> - 1) / LANES<T> * LANES<T>;
    std::vector<T> memory;
    T *const copies;
    T start, slope = 8;  // the height where rows end, and how much of it an excess of 1 moves it
    T top[R], u[R], base[R], height[R];
    T n[R], mass[R], last[R], next[R];    // what the last pass saw
    T low[R], high[R], over[R], under[R]; // both ends, and by how much they miss the threshold
    T open[R];                            // 1 for rows that need another pass
    T landed[R]; // 1 where the last pass found the end, 2 where it lies before the last label of that pass
    int rows[R];                          // that need another pass
    explicit Guessed(const Formula &f)
        : f(f), C(f.C), memory(R * width + 64, -1), copies(aligned(memory)), start(1 / (T)C) {}

    const T *row(I i) const { return copies + i * width; }
    void keep(int i, const Cut &cut) {
        n[i] = (T)cut.n, mass[i] = (T)cut.mass, last[i] = (T)cut.last, next[i] = (T)cut.next;
    }
    bool read(const T *p) { // with a first pass, at the height where earlier rows ended
        Cut cut;
        bool sure = true;
        for (int i = 0; i < R && sure; i++) {
            sure = copy_row(p + i * C, C, copies + i * width, top[i], start, cut);
            top[i] = std::min(fixed(top[i]), (T)1);
            keep(i, cut);
        }
        return sure;
    }

    // Move the ends to labels that were seen, and choose the next height of rows that need one; return
    // how many do.
    HOT int narrow(T step) {
        const T share = f.by_top ? 0 : 1, labels = (T)C, least = f.rule == LEQ ? 0 : 1;
        // Penalties rise by a rate from the first rank on that is not free; only the guess needs that.
        const T rate = (T)(f.penalty[C] - f.penalty[C - 1]);
        const T free = (rate > 0 ? labels - (T)f.penalty[C] / rate : 0) + (f.rule == UNTIL && !f.by_top);
        SIMD for (int i = 0; i < R; i++) {
            // By how much a label passes the threshold, with what weighs up to it and its rank.
            const auto excess = [&](T upto, T own, T rank) {
                const T counted = rank - free;
                return share * (upto - (1 - u[i]) * own) + base[i] + rate * (counted > 0 ? counted : 0);
            };
            const T passed = excess(mass[i], last[i], n[i]), after = excess(mass[i] + next[i], next[i], n[i] + 1);
            const T before = excess(mass[i] - last[i], last[i], n[i] - 1);
            const bool in = (passed <= 0) | (n[i] <= least), more = (n[i] < labels) & ((after <= 0) | (n[i] < least));
            const bool live = open[i] > 0, too_low = live & !in, too_high = live & in & more;
            const T h = too_high ? next[i] : high[i], l = too_low ? last[i] : low[i];
            const T d = too_high ? -after : under[i], o = too_low ? passed : over[i];
            const T outside = l < 0 ? h / (1 + step * d) : l * (1 + step * o), inside = h - (h - l) * (d / (d + o));
            T to = (l < 0) | (h > 1) ? outside : inside;
            to = to < h ? to : h * (T)0.999999;
            to = (to > l) & (to < h) ? to : l;
            const bool found = too_low & (before <= 0); // without the last label it fits
            height[i] = found ? last[i] : too_low | too_high ? to : height[i];
            high[i] = h, low[i] = l, under[i] = d, over[i] = o;
            landed[i] = found ? 2 : live ? (in & !more ? 1 : 0) : landed[i];
            open[i] = (too_high | too_low) & !found & (l < h) ? 1 : 0;
            // The label before it is not known, but is no smaller: with `last` in its place, its score counts
            // as no less than it is.
            n[i] -= found ? 1 : 0, mass[i] -= found ? last[i] : 0, next[i] = found ? last[i] : next[i];
        }
        int rest = 0;
        for (int i = 0; i < R; i++) rows[rest] = i, rest += open[i] > 0;
        return rest;
    }

    // Decide a row exactly: sort what may belong to its set, and read it rank by rank.
    I decide(const T *r, double top, double u, double q, T above, T &after) {
        for (;; above = -1) {
            std::vector<T> kept;
            for (I j = 0; j < C; j++)
                if (r[j] > above) kept.push_back(r[j]);
            std::sort(kept.begin(), kept.end(), std::greater<T>());
            double upto = 0;
            I size = 0;
            while (size < (I)kept.size() && fits(f, upto, kept[size], size + 1, top, u, q)) upto += kept[size++];
            after = size < (I)kept.size() ? kept[size] : (T)-1;
            if (after >= 0 || size == C) return size;
        }
    }

    void find(const T *coming, Ends<T, R> &ends) {
        int rest = 0;
        for (int i = 0; i < R; i++) {
            u[i] = f.rule == UNTIL ? 0 : (T)ends.u[i];
            base[i] = (T)((f.by_top ? top[i] - (1 - u[i]) * f.penalty[2] : 0) - std::max(ends.q[i], -1.0));
            height[i] = ends.q[i] >= 1 + f.penalty[C] ? (T)-1 : start; // no score is larger
            low[i] = -1, high[i] = 2, over[i] = under[i] = 0, open[i] = 1;
            rows[rest] = i, rest += height[i] != start;
        }
        // A rounded sum of m numbers of at least 0 errs by at most m times the unit of rounding and their
        // sum, here less than 1.01. A lane adds width / LANES numbers, and joining the lanes takes a few
        // steps, as taking out a label does. A score moves by no more than the masses in it; its own
        // rounding is within the rest.
        const double unit = sizeof(T) == 4 ? 0x1p-24 : 0x1p-53;
        const double rounding = 2 * unit * (double)(width / LANES<T> + 8);
        T missed = 0, moved = 0;
        Bits<T> middle = 0; // bits of numbers have nearly the distances of logarithms
        for (int pass = 0; pass < 12; pass++) {
            for (int k = 0; k < rest; k++) keep(rows[k], cut_at<false>(row(rows[k]), C, height[rows[k]]));
            rest = narrow(slope * (T)(1 << pass));
            for (int i = 0; i < R && pass == 0; i++) missed += over[i] + under[i];
            if (!rest) break;
        }
        for (int i = 0; i < R; i++) {
            const T *r = row(i);
            for (I j = 0; coming && j < C; j += LANES<T>) PREFETCH(coming + i * C + j);
            const auto ends_there = [&](const Cut &cut, double slack) {
                const double u = ends.u[i], q = ends.q[i];
                return (cut.n == 0 || fits(f, cut.mass - cut.last, cut.last, cut.n, top[i], u, q - slack)) &&
                       (cut.n == C || !fits(f, cut.mass, cut.next, cut.n + 1, top[i], u, q + slack));
            };
            Cut cut{(I)n[i], mass[i], last[i], next[i]};
            bool right = landed[i] > 0 && ends_there(cut, rounding * (2 + std::fabs(ends.q[i])));
            if (!right) cut = cut_at<true>(r, C, height[i]), right = ends_there(cut, 0);
            ends.size[i] = cut.n, ends.next[i] = (T)cut.next, ends.tied[i] = !right || landed[i] > 1 ? 1 : 0;
            if (!right) ends.size[i] = decide(r, top[i], ends.u[i], ends.q[i], height[i] / 2, ends.next[i]);
            middle += cast<Bits<T>>(height[i] > 0 ? height[i] : start) / R;
            moved += std::fabs(height[i] - start) / start;
        }
        if (missed > 0) slope += (T)0.25 * ((T)0.8 * std::min(moved / missed, (T)1e4) - slope);
        start = cast<T>(middle);
    }
};

struct Out { // what is wanted; null where it is not
    I *sizes;
    bool *covered, *mask;
};

// Mark the labels of a row above a height. A whole vector is written where there is room: what it
// writes beyond the row is overwritten by the next one.
template <class T> void write_row(const T *r, I C, T height, bool *RESTRICT mask, bool room) {
    constexpr int WIDTH = 16;
    if (room && C <= WIDTH) {
        SIMD for (int j = 0; j < WIDTH; j++) mask[j] = fixed(r[j]) > height;
    } else {
        SIMD for (I j = 0; j < C; j++) mask[j] = fixed(r[j]) > height;
    }
}

// How many labels are marked: the top byte of the product is the sum of eight bytes.
inline I count(const bool *mask, I C) {
    I n = 0, j = 0;
    for (; j + 8 <= C; j += 8) {
        uint64_t eight;
        std::memcpy(&eight, mask + j, 8);
        n += (I)(eight * 0x0101010101010101 >> 56);
    }
    for (; j < C; j++) n += mask[j];
    return n;
}

// Fill in a row of which the size is known and the value of the next label: equals of that value
// belong to the set by smaller index.
template <class T> void write_tied(const T *r, I C, I size, T next, I i, I y, const Out &out) {
    I left = size;
    for (I j = 0; j < C; j++) left -= fixed(r[j]) > next;
    for (I j = 0; j < C; j++) {
        const T x = fixed(r[j]);
        const bool in = x > next || (x == next && left-- > 0);
        if (out.mask) out.mask[i * C + j] = in;
        if (out.covered && j == y) out.covered[i] = in;
    }
}

template <template <class> class How, class T>
bool shared_sets(const T *p, I n, const Formula &f, const double *u, const double *q, bool by_row, const I *y,
                 const Out &out) {
    constexpr int R = How<T>::R;
    const I C = f.C;
    How<T> how(f);
    Ends<T, R> ends;
    std::fill_n(ends.u, R, 1.0);
    std::fill_n(ends.q, R, n ? q[0] : 0.0);
    return for_blocks(p, n, how, [&](const T *RESTRICT rows, I at, I many) {
        if (u) take<R>(u + at, many, ends.u);
        if (by_row) take<R>(q + at, many, ends.q);
        how.find(at + 2 * R <= n ? rows + R * C : nullptr, ends);
        std::copy_n(ends.size, many, out.sizes + at);
        if (out.covered)
            SIMD for (I i = 0; i < many; i++) out.covered[at + i] = fixed(rows[i * C + y[at + i]]) > ends.next[i];
        for (I i = 0; out.mask && i < many; i++)
            write_row(rows + i * C, C, ends.next[i], out.mask + (at + i) * C, (at + i) * C + 16 <= n * C);
        int ties = 0;
        for (int i = 0; i < R; i++) ties |= ends.tied[i] > 0;
        for (I i = 0; ties && i < many; i++) {
            if (!(ends.tied[i] > 0)) continue;
            const T *r = rows + i * C;
            const I label = y ? y[at + i] : 0;
            if (out.mask ? count(out.mask + (at + i) * C, C) < ends.size[i] : fixed(r[label]) == ends.next[i])
                write_tied(r, C, ends.size[i], ends.next[i], at + i, label, out);
        }
    });
}

// Sets where each label has a threshold of its own ------------------------------------------------
//
// Value and label are one number: the value in units of 2^-52, then 10 bits that put the smaller
// label first. As a float64 with the same bits, offset to stay off subnormal numbers, it keeps its
// order, and the network sorts it. At most PACKED labels; more are left to numpy.

constexpr int64_t OFFSET = int64_t(1) << 61;

template <class T>
bool label_sets(const T *p, I n, const Formula &f, const double *u, const double *q, const I *y,
                const Out &out) {
    constexpr int R = 32;
    const I C = f.C;
    const int64_t one = cast<int64_t>(1.0);
    const std::vector<Pair> pairs = network(C);
    Columns<T> block(C);
    std::vector<double> keys(C * R + 8);
    double *RESTRICT s = aligned(keys);
    return for_blocks(p, n, block, [&](const T *, I at, I many) {
        for (I part = 0; part < many; part += R) {
            const I some = std::min<I>(R, many - part);
            for (I j = 0; j < C; j++) {
                const T *r = block.s + j * Columns<T>::R + part;
                SIMD for (int i = 0; i < R; i++) {
                    int64_t units = cast<int64_t>(capped(r[i]) + 1.0) - one;
                    s[j * R + i] = cast<double>(units * PACKED + (PACKED - 1 - j) + OFFSET);
                }
            }
            sort_columns<R>(s, pairs);
            Scan<R> scan;
            I sizes[R] = {};
            for (I i = 0; i < R; i++) scan.u[i] = u ? u[at + part + std::min(i, some - 1)] : 1.0;
            for (I k = 1; k <= C; k++) {
                const auto value = [r = s + (k - 1) * R, one](int i) {
                    return cast<double>((cast<int64_t>(r[i]) - OFFSET) / PACKED + one) - 1.0;
                };
                if (k == 1) scan.start(value);
                f.by_top ? scan.template read<true, false>(f, k, value) : scan.template read<false, false>(f, k, value);
                for (I i = 0; i < some; i++) {
                    const I j = PACKED - 1 - (cast<int64_t>(s[(k - 1) * R + i]) & (PACKED - 1)), row = at + part + i;
                    const bool in = scan.score[i] <= q[j];
                    sizes[i] += in;
                    if (out.mask) out.mask[row * C + j] = in;
                    if (out.covered && j == y[row]) out.covered[row] = in;
                }
            }
            for (I i = 0; i < some; i++) out.sizes[at + part + i] = sizes[i];
        }
    });
}

// LAC: which probabilities are at least some number ------------------------------------------------

template <class T> struct Checked { // a long row that stays where it is
    static constexpr int R = 1;
    const I C;
    explicit Checked(I C) : C(C) {}
    HOT bool read(const T *p) {
        T largest;
        return weigh(p, C, largest, [](I, int, T, bool) {});
    }
};

template <bool ONE, class T> HOT void mark(const T *RESTRICT p, const T *RESTRICT least, I n, bool *RESTRICT mask) {
    const T one = *least;
    SIMD for (I j = 0; j < n; j++) mask[j] = p[j] >= (ONE ? one : least[j]);
}

// Check rows and, unless `least` is null, mark labels by one number for all (per 0), one a row (1) or
// one a label (2). A block of rows is treated as one long row.
template <class Block, class T>
bool lac(const T *p, I n, I C, const T *least, I per, const I *y, const Out &out) {
    constexpr int R = Block::R;
    Block block(C);
    std::vector<T> each(least && n ? R * C : 0);
    std::vector<char> memory(R * C);
    for (I i = 0; i < (I)each.size(); i++) each[i] = least[per == 2 ? i % C : 0];
    return for_blocks(p, n, block, [&](const T *rows, I at, I many) {
        if (!least) return;
        for (I i = 0; per == 1 && R > 1 && i < many; i++) std::fill_n(each.data() + i * C, C, least[at + i]);
        bool *mask = out.mask ? out.mask + at * C : reinterpret_cast<bool *>(memory.data());
        if (per == 0 || (per == 1 && R == 1)) mark<true>(rows, least + per * at, many * C, mask);
        else mark<false>(rows, each.data(), many * C, mask);
        for (I i = 0; out.covered && i < many; i++) out.covered[at + i] = mask[i * C + y[at + i]];
        if (!out.sizes) return;
        Bits<T> size[R] = {};
        if constexpr (R == 1) size[0] = (Bits<T>)count(mask, C);
        else {
            T own[R];
            for (int i = 0; i < R; i++) own[i] = each[i * C];
            for (I j = 0; j < C; j++) {
                if (per == 2) std::fill_n(own, R, each[j]);
                SIMD for (int i = 0; i < R; i++) size[i] += block.s[j * R + i] >= own[i];
            }
        }
        std::copy_n(size, many, out.sizes + at);
    });
}

// Intervals: distances and ends, as `numpy.distance` and `numpy.reach` define them -----------------

inline double next_up(double x) {
    int64_t bits = cast<int64_t>(x);
    int64_t moved = bits >= 0 ? bits + 1 : bits - 1;
    return cast<double>(x == 0 ? int64_t(1) : moved);
}
inline double distance(double base, double y) {
    double q = y - base;
    return base + q < y ? next_up(q) : q;
}
inline double reach(double base, double q) {
    double y = base + q;
    return y - base > q ? -next_up(-y) : y;
}

// Of one estimate or two in any order. Return whether all numbers were finite: x - x is 0 for these
// alone, and NaN for all others.
template <int WIDTH>
bool interval_scores(const double *RESTRICT out, I n, const double *RESTRICT y, double *RESTRICT scores) {
    double total = 0;
    SIMD_SUM for (I i = 0; i < n; i++) {
        const double a = out[i * WIDTH], b = out[i * WIDTH + WIDTH - 1];
        const double below = distance(-(a < b ? a : b), -y[i]), above = distance(a < b ? b : a, y[i]);
        scores[i] = below > above ? below : above;
        total += (a - a) + (b - b) + (y[i] - y[i]);
    }
    return total == 0;
}

template <int WIDTH>
bool interval_ends(const double *RESTRICT out, I n, double q_low, double q_high, double *RESTRICT low,
                   double *RESTRICT high) {
    double total = 0;
    SIMD_SUM for (I i = 0; i < n; i++) {
        const double a = out[i * WIDTH], b = out[i * WIDTH + WIDTH - 1];
        low[i] = -reach(-(a < b ? a : b), q_low);
        high[i] = reach(a < b ? b : a, q_high);
        total += (a - a) + (b - b);
    }
    return total == 0;
}

// Order statistics --------------------------------------------------------------------------------

// The value of a rank, from 1 to n. A sorted sample gives two values that surely enclose it, but for
// bad luck; one pass counts what lies below and keeps what lies between.
double order_statistic(const double *values, I n, I rank) {
    std::vector<double> kept;
    I below = 0;
    if (n >= 8192) {
        const I size = 4 * (I)std::sqrt((double)n); // sorting it takes as long as what it leaves
        std::vector<double> sample(size);
        for (I i = 0; i < size; i++) sample[i] = values[(uint64_t)i * 2654435761u % (uint64_t)n]; // no period
        std::sort(sample.begin(), sample.end());
        const double share = (double)rank / (double)n, margin = 4 * std::sqrt((double)size * share * (1 - share)) + 4;
        const double first = (double)size * share - margin, last = (double)size * share + margin;
        const double low = first < 0 ? -INF : sample[(I)first];
        const double high = last >= (double)size ? INF : sample[(I)last];
        kept.resize(n / 4 + 1);
        I inside = 0;
        for (I i = 0; i < n && inside < n / 4; i++) {
            kept[inside] = values[i]; // stays only if the next one goes behind it
            inside += (values[i] >= low) & (values[i] <= high);
            below += values[i] < low;
        }
        if (inside < n / 4 && below < rank && rank <= below + inside) kept.resize(inside);
        else kept.clear();
    }
    if (kept.empty()) kept.assign(values, values + n), below = 0;
    auto wanted = kept.begin() + (rank - 1 - below);
    std::nth_element(kept.begin(), wanted, kept.end());
    return *wanted;
}

// Hashes: BLAKE2b (RFC 7693) with 8 bytes of output, W messages side by side ------------------------

constexpr int W = 8;
constexpr uint64_t IV[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                            0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
constexpr uint8_t SIGMA[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

struct Hashes {
    uint64_t h[8][W];
    explicit Hashes(uint64_t key_bytes) {
        for (int k = 0; k < 8; k++)
            for (int i = 0; i < W; i++) h[k][i] = IV[k] ^ (k ? 0 : 0x01010000 ^ key_bytes << 8 ^ 8);
    }

    // Take in one block of each message that has one at `at`; `upto` counts the bytes so far.
    void take(const uint8_t *const *message, const I *length, I at, I before) {
        uint64_t m[16][W], v[16][W], whole[W], last[W], live[W];
        for (int i = 0; i < W; i++) {
            const I left = length[i] - at;
            uint64_t words[16] = {};
            if (left > 0) std::memcpy(words, message[i] + at, (size_t)std::min<I>(left, 128));
            for (int k = 0; k < 16; k++) m[k][i] = words[k];
            whole[i] = (uint64_t)(before + std::min(at + 128, length[i]));
            last[i] = left <= 128 ? ~uint64_t(0) : 0;
            live[i] = left > 0 || at == 0 ? ~uint64_t(0) : 0;
        }
        for (int k = 0; k < 8; k++)
            for (int i = 0; i < W; i++) v[k][i] = h[k][i], v[k + 8][i] = IV[k];
        for (int i = 0; i < W; i++) v[12][i] ^= whole[i], v[14][i] ^= last[i];
        for (int round = 0; round < 12; round++) {
            const uint8_t *s = SIGMA[round % 10];
            for (int k = 0; k < 4; k++) mix(v[k], v[k + 4], v[k + 8], v[k + 12], m[s[2 * k]], m[s[2 * k + 1]]);
            for (int k = 0; k < 4; k++)
                mix(v[k], v[(k + 1) % 4 + 4], v[(k + 2) % 4 + 8], v[(k + 3) % 4 + 12], m[s[2 * k + 8]], m[s[2 * k + 9]]);
        }
        for (int k = 0; k < 8; k++)
            for (int i = 0; i < W; i++) h[k][i] ^= (v[k][i] ^ v[k + 8][i]) & live[i];
    }

  private:
    static uint64_t turned(uint64_t x, int by) { return x >> by | x << (64 - by); }
    static void mix(uint64_t *RESTRICT a, uint64_t *RESTRICT b, uint64_t *RESTRICT c, uint64_t *RESTRICT d,
                    const uint64_t *RESTRICT x, const uint64_t *RESTRICT y) {
        SIMD for (int i = 0; i < W; i++) {
            uint64_t A = a[i] + b[i] + x[i], D = turned(d[i] ^ A, 32), C = c[i] + D, B = turned(b[i] ^ C, 24);
            A += B + y[i], D = turned(D ^ A, 16), C += D, B = turned(B ^ C, 63);
            a[i] = A, b[i] = B, c[i] = C, d[i] = D;
        }
    }
};

// Hash n messages; `message(i, length)` returns the bytes of one and their number.
template <class Message> void hash_all(I n, const Hashes &start, I before, Message message, uint64_t *out) {
    for (I at = 0; at < n; at += W) {
        const uint8_t *bytes[W];
        I length[W], longest = 1;
        for (int i = 0; i < W; i++) {
            const I k = std::min(at + i, n - 1);
            bytes[i] = message(k, i, length[i]);
            longest = std::max(longest, length[i]);
        }
        Hashes hashes = start;
        for (I block = 0; block < longest; block += 128) hashes.take(bytes, length, block, before);
        for (I i = 0; i < std::min<I>(W, n - at); i++) out[at + i] = hashes.h[0][i];
    }
}

// Write code points as UTF-8, without zeros at the end. Return the number of bytes, or -1 where Python
// has to: for no text, and for what takes more than two bytes.
I write_utf8(const uint32_t *text, I width, uint8_t *out) {
    while (width && !text[width - 1]) width--;
    I n = 0;
    for (I i = 0; i < width; i++) {
        const uint32_t c = text[i];
        if (c >= 0x800) return -1;
        if (c >= 0x80) out[n++] = (uint8_t)(0xc0 | c >> 6);
        out[n++] = (uint8_t)(c < 0x80 ? c : 0x80 | (c & 63));
    }
    return n ? n : -1;
}

// Keyed hashes of texts; false where one is left to Python.
bool hash_texts(const uint32_t *texts, I n, I width, const uint8_t *key, uint64_t *out) {
    uint8_t block[128] = {};
    std::memcpy(block, key, 16);
    const uint8_t *keys[W];
    I lengths[W];
    for (int i = 0; i < W; i++) keys[i] = block, lengths[i] = 256; // not the last block
    Hashes start(16);
    start.take(keys, lengths, 0, 0);
    std::vector<uint8_t> memory(W * (2 * width + 1));
    bool valid = true;
    hash_all(n, start, 128, [&](I k, int i, I &length) {
        uint8_t *bytes = memory.data() + i * (2 * width + 1);
        length = write_utf8(texts + k * width, width, bytes);
        valid &= length >= 0;
        return bytes;
    }, out);
    return valid;
}

void hash_rows(const uint8_t *rows, I n, I bytes, uint64_t *out) {
    hash_all(n, Hashes(0), 0, [&](I k, int, I &length) {
        length = bytes;
        return rows + k * bytes;
    }, out);
}

// Python -------------------------------------------------------------------------------------------
//
// Arrays come as buffers, contiguous and of the type that the caller promises; their lengths are
// checked here. The interpreter's lock is released while a loop runs.

#ifndef FAST_MODULE
#define FAST_MODULE _fast
#endif
#ifndef FAST_DIGEST
#define FAST_DIGEST ""
#endif

#define QUOTE(a) #a
#define TEXT(a) QUOTE(a)

struct Error {};

[[noreturn]] void fail(PyObject *kind, const char *why) {
    PyErr_SetString(kind, why);
    throw Error();
}

class Call { // the arguments of a call, read one after the other; arrays are held until it ends
  public:
    Call(PyObject *const *args, Py_ssize_t n) : next(args) { views.reserve((size_t)n); }
    ~Call() {
        for (Py_buffer &view : views) PyBuffer_Release(&view);
    }
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;

    I integer() { return checked((I)PyLong_AsLongLong(*next++)); }
    double real() { return checked(PyFloat_AsDouble(*next++)); }
    // An array of so many numbers, or of any if that is -1; null for None.
    template <class T> T *array(I numbers) {
        PyObject *object = *next++;
        if (object == Py_None) return nullptr;
        Py_buffer view;
        if (PyObject_GetBuffer(object, &view, std::is_const_v<T> ? PyBUF_CONTIG_RO : PyBUF_CONTIG)) throw Error();
        views.push_back(view);
        length = (I)view.len / (I)sizeof(T);
        if (numbers >= 0 && numbers != length) fail(PyExc_ValueError, "a buffer has another length than is needed");
        return static_cast<T *>(view.buf);
    }
    I length = 0; // of the last array

  private:
    template <class T> T checked(T value) {
        if (value == -1 && PyErr_Occurred()) throw Error();
        return value;
    }
    PyObject *const *next;
    std::vector<Py_buffer> views;
};

template <PyObject *work(Call &), int COUNT> PyObject *call(PyObject *, PyObject *const *args, Py_ssize_t n) {
    try {
        if (n != COUNT) fail(PyExc_TypeError, "another number of arguments is needed");
        Call arguments(args, n);
        return work(arguments);
    } catch (const Error &) {
    } catch (const std::bad_alloc &) {
        PyErr_NoMemory();
    }
    return nullptr;
}

struct Unlocked { // the interpreter's lock, released as long as this lives
    PyThreadState *state = PyEval_SaveThread();
    ~Unlocked() { PyEval_RestoreThread(state); }
};
template <class Work> auto unlocked(Work work) {
    const Unlocked lock;
    return work();
}

struct Rows { // the first three arguments: probabilities, how many labels, bytes of each
    const char *p;
    I bytes, C, size, n;
    explicit Rows(Call &c) : p(c.array<const char>(-1)), bytes(c.length), C(c.integer()), size(c.integer()) {
        if (C < 2 || bytes % (C * size)) fail(PyExc_ValueError, "rows must have at least two labels, all of them");
        n = bytes / (C * size);
    }
    template <class Work> PyObject *run(Work work) const {
        return PyBool_FromLong(unlocked([&] {
            return size == 4 ? work(reinterpret_cast<const float *>(p)) : work(reinterpret_cast<const double *>(p));
        }));
    }
    const I *labels(Call &c) const {
        const I *y = c.array<const I>(n);
        for (I i = 0; y && i < n; i++)
            if (y[i] < 0 || y[i] >= C) fail(PyExc_ValueError, "a label is outside the classes");
        return y;
    }
    I thresholds(I per) const { return per == 0 ? 1 : per == 1 ? n : C; }
    Out out(Call &c) const {
        I *sizes = c.array<I>(n);
        bool *covered = c.array<bool>(n);
        return {sizes, covered, c.array<bool>(n * C)};
    }
};

// probabilities, C, size, labels, u, penalties, by_top, scores
PyObject *py_scores(Call &c) {
    const Rows rows(c);
    const I *y = rows.labels(c);
    const double *u = c.array<const double>(rows.n), *penalties = c.array<const double>(rows.C + 1);
    const Formula f{rows.C, penalties, c.integer() != 0, LEQ};
    double *scores = c.array<double>(rows.n);
    return rows.run([&](auto *p) { return scores_of_labels(p, rows.n, f, y, u, scores); });
}

// probabilities, C, size, labels, u, penalties, by_top, rule, per, q, sizes, covered, mask
PyObject *py_sets(Call &c) {
    const Rows rows(c);
    const I *y = rows.labels(c), n = rows.n, C = rows.C;
    const double *u = c.array<const double>(n), *penalties = c.array<const double>(C + 1);
    const bool by_top = c.integer() != 0;
    const Formula f{C, penalties, by_top, (Rule)c.integer()};
    const I per = c.integer();
    const double *q = c.array<const double>(rows.thresholds(per));
    const Out out = rows.out(c);
    if (!out.sizes || !penalties || !q || (out.covered && !y) || (per == 2 && C > PACKED))
        fail(PyExc_ValueError, "an array is missing, or there are too many labels");
    return rows.run([&](auto *p) {
        if (per == 2) return label_sets(p, n, f, u, q, y, out);
        return C <= SHORT ? shared_sets<Sorted>(p, n, f, u, q, per == 1, y, out)
                          : shared_sets<Guessed>(p, n, f, u, q, per == 1, y, out);
    });
}

// probabilities, C, size, labels, per, least, sizes, covered, mask; from labels on all may be left out
PyObject *py_lac(Call &c) {
    const Rows rows(c);
    const I *y = rows.labels(c), per = c.integer();
    const char *least = c.array<const char>(-1);
    if (least && c.length != rows.size * rows.thresholds(per)) fail(PyExc_ValueError, "thresholds have another length");
    const Out out = rows.out(c);
    if (out.covered && !y) fail(PyExc_ValueError, "labels are missing");
    return rows.run([&](auto *p) {
        using T = std::remove_cv_t<std::remove_pointer_t<decltype(p)>>;
        const T *from = reinterpret_cast<const T *>(least);
        return rows.C <= SHORT ? lac<Columns<T, false>>(p, rows.n, rows.C, from, per, y, out)
                               : lac<Checked<T>>(p, rows.n, rows.C, from, per, y, out);
    });
}

// y, outputs (one or two of each row), scores
PyObject *py_interval_scores(Call &c) {
    const double *y = c.array<const double>(-1);
    const I n = c.length;
    const double *outputs = c.array<const double>(-1);
    const bool pair = c.length == 2 * n;
    double *scores = c.array<double>(n);
    const auto work = pair ? interval_scores<2> : interval_scores<1>;
    return PyBool_FromLong(unlocked([&] { return work(outputs, n, y, scores); }));
}

// low, high, outputs, q_low, q_high
PyObject *py_interval_ends(Call &c) {
    double *low = c.array<double>(-1);
    const I n = c.length;
    double *high = c.array<double>(n);
    const double *outputs = c.array<const double>(-1);
    const auto work = c.length == 2 * n ? interval_ends<2> : interval_ends<1>;
    const double q_low = c.real(), q_high = c.real();
    return PyBool_FromLong(unlocked([&] { return work(outputs, n, q_low, q_high, low, high); }));
}

// values, rank
PyObject *py_order_statistic(Call &c) {
    const double *values = c.array<const double>(-1);
    const I n = c.length, rank = c.integer();
    if (rank < 1 || rank > n) fail(PyExc_ValueError, "the rank must lie within the sample");
    return PyFloat_FromDouble(unlocked([&] { return order_statistic(values, n, rank); }));
}

// hashes, width, code points, key
PyObject *py_hash_texts(Call &c) {
    uint64_t *hashes = c.array<uint64_t>(-1);
    const I n = c.length;
    const I width = c.integer();
    const uint32_t *texts = c.array<const uint32_t>(n * width);
    const uint8_t *key = c.array<const uint8_t>(16);
    return PyBool_FromLong(unlocked([&] { return hash_texts(texts, n, width, key, hashes); }));
}

// hashes, bytes of each row, rows
PyObject *py_hash_rows(Call &c) {
    uint64_t *hashes = c.array<uint64_t>(-1);
    const I n = c.length;
    const I bytes = c.integer();
    const uint8_t *rows = c.array<const uint8_t>(n * bytes);
    unlocked([&] { return hash_rows(rows, n, bytes, hashes); });
    return PyBool_FromLong(1);
}

// Of which version of x86-64 this processor has the instructions: 4, 3, or 0 for neither.
PyObject *py_level(Call &) {
#if defined(__x86_64__) && defined(__GNUC__)
    const auto v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
    const auto v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    return PyLong_FromLong(v3 ? 3 + bool(v4) : 0);
#else
    return PyLong_FromLong(0);
#endif
}

#define METHOD(name, count) {#name, (PyCFunction)(void (*)(void))call<py_##name, count>, METH_FASTCALL, nullptr}
PyMethodDef methods[] = {METHOD(scores, 8), METHOD(sets, 13), METHOD(lac, 9),
                         METHOD(interval_scores, 3), METHOD(interval_ends, 5), METHOD(order_statistic, 2),
                         METHOD(hash_texts, 4), METHOD(hash_rows, 3), METHOD(level, 0), {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, TEXT(FAST_MODULE), nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

} // namespace

#define JOIN(a, b) a##b
#define INIT(name) JOIN(PyInit_, name)
PyMODINIT_FUNC INIT(FAST_MODULE)(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddStringConstant(module, "DIGEST", FAST_DIGEST)) Py_CLEAR(module);
    return module;
}
