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
// one exact pass then *verifies* it: the last label above fits, the first one below does not. A
// guess that fails costs time and never a wrong set: `search_row` decides such a row exactly. So no
// bound on rounding is needed.
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
#include <limits>
#include <type_traits>
#include <vector>

#if defined(_MSC_VER)
#define SIMD __pragma(loop(ivdep))
#define SIMD_SUM __pragma(loop(ivdep))
#define RESTRICT __restrict
#define HOT __declspec(noinline)
#else
#define SIMD _Pragma("omp simd")
#define SIMD_SUM _Pragma("omp simd reduction(+ : total)")
#define RESTRICT __restrict__
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

struct Thresholds { // u of each row, or null for 1; q for all rows (step 0) or for each (step 1)
    const double *u, *q;
    I q_step;
    double of_u(I i) const { return u ? u[i] : 1.0; }
};

struct Out { // what is wanted; null where it is not
    I *sizes;
    bool *covered, *mask;
};

// Long rows ----------------------------------------------------------------------------------------
//
// A row is checked and copied as multiples of 2^-52; behind its last label follow numbers below all
// heights, so that loops over the copy have no rest. They keep a sum for each of some lanes.

template <class T> constexpr int LANES = 64 / sizeof(T);
// In which a lane counts: plain x86-64 has no int64 to add one by one where a comparison holds.
template <class T> using Count = std::conditional_t<sizeof(T) == 4, int32_t, double>;
template <class T> inline I padded(I C) { return (C + LANES<T> - 1) / LANES<T> * LANES<T>; }

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
template <class T> HOT bool check_row(const T *RESTRICT r, I C) {
    T top;
    return weigh(r, C, top, [](I, int, T, bool) {});
}
template <class T> HOT bool copy_row(const T *RESTRICT r, I C, T *RESTRICT x, T &largest) {
    return weigh(r, C, largest, [x](I j, int l, T one, bool) { x[j + l] = fixed(one); });
}

// What lies above a height and next to it on either side; the sum is rounded unless it is EXACT.
struct Cut {
    I n;
    double mass, last, next;
};

template <bool EXACT, class T> HOT Cut cut_at(const T *RESTRICT x, I C, T height) {
    std::conditional_t<EXACT, double, T> mass[LANES<T>];
    Count<T> n[LANES<T>];
    T last[LANES<T>], next[LANES<T>];
    for (int l = 0; l < LANES<T>; l++) n[l] = 0, mass[l] = 0, last[l] = 2, next[l] = -1;
    for (I j = 0; j < C; j += LANES<T>)
        SIMD for (int l = 0; l < LANES<T>; l++) {
            const T one = x[j + l], in = one > height ? one : (T)0;
            const T above = one > height ? one : (T)2, under = one > height ? (T)-1 : one;
            n[l] += one > height;
            mass[l] += in;
            last[l] = above < last[l] ? above : last[l];
            next[l] = under > next[l] ? under : next[l];
        }
    return {(I)sum_of(n), (double)sum_of(mass), (double)least_of(last), (double)largest_of(next)};
}

// Short rows ---------------------------------------------------------------------------------------

template <class T> constexpr int G = 64 / sizeof(T); // rows of a group: one register of AVX-512

template <class T> T *aligned(std::vector<T> &memory) { // to 64 bytes
    return reinterpret_cast<T *>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
}

template <class T> struct Block { // short rows side by side
    static constexpr int R = 256 / sizeof(T); // rows; 256 bytes are four AVX-512 registers
    const T *row = nullptr;                   // the first
    std::vector<T> memory, tail;
    T *s; // number j of row i at s[j * R + i]; there is room before the first label and after the last
    explicit Block(I C) : memory((C + 2) * R + 64), tail(C * R), s(aligned(memory) + R) {}
};

// Read R rows into columns. Returns whether all are surely probabilities.
template <bool FIXED, class T> HOT bool read_columns(const T *RESTRICT p, I C, T *RESTRICT s) {
    constexpr int R = Block<T>::R;
    T total[R], least[R];
    for (int i = 0; i < R; i++) total[i] = (T)-0.0, least[i] = 1;
    for (I j = 0; j < C; j++) {
        SIMD for (int i = 0; i < R; i++) {
            const T x = p[i * C + j];
            total[i] += x;
            least[i] = x < least[i] ? x : least[i];
            s[j * R + i] = FIXED ? fixed(x) : x;
        }
    }
    int sure = 0;
    for (int i = 0; i < R; i++) sure += std::fabs(total[i] - 1) < (T)SURE && least[i] >= 0;
    return sure == R;
}

// Call work(first row, rows) for each block, the last row again where there are too few; stop where
// rows may not be probabilities.
template <bool FIXED, class T, class Work> bool for_blocks(const T *p, I n, I C, Block<T> &b, Work work) {
    constexpr int R = Block<T>::R;
    for (I at = 0; at < n; at += R) {
        const I rows = std::min<I>(R, n - at);
        b.row = p + at * C;
        for (I i = 0; rows < R && i < R; i++)
            std::copy_n(b.row + std::min(i, rows - 1) * C, C, b.tail.data() + i * C);
        if (rows < R) b.row = b.tail.data();
        if (!read_columns<FIXED>(b.row, C, b.s)) return false;
        work(at, rows);
    }
    return true;
}

// What some rows of a block are given, that of the last row again where there are too few.
template <int R, class T, class S> void take(const S *RESTRICT given, I rows, T *RESTRICT taken) {
    for (I i = 0; i < rows; i++) taken[i] = (T)given[i];
    for (I i = rows; i < R; i++) taken[i] = taken[rows - 1];
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
        const T *r = s + j * Block<T>::R;
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
    constexpr int R = Block<T>::R;
    const I C = f.C;
    if (C > SHORT) {
        for (I i = 0; i < n; i++) {
            const T *r = p + i * C;
            double before;
            I rank;
            T top;
            if (!place(r, C, y[i], before, rank, top)) return false;
            out[i] = score(f, before, fixed(r[y[i]]), rank, capped(fixed(top)), u ? u[i] : 1.0);
        }
        return true;
    }
    Block<T> b(C);
    double v[R];
    std::fill_n(v, R, 1.0);
    return for_blocks<true>(p, n, C, b, [&](I at, I rows) {
        T own[R];
        Bits<T> label[R];
        double mass[R], rank[R], top[R], found[R];
        if (u) take<R>(u + at, rows, v);
        take<R>(y + at, rows, label);
        const T *RESTRICT s = b.s;
        SIMD for (int i = 0; i < R; i++) own[i] = s[(I)label[i] * R + i];
        for (int g = 0; g < R; g += G<T>) places(b.s + g, C, own + g, label + g, mass + g, rank + g, top + g);
        SIMD for (int i = 0; i < R; i++) found[i] = score(f, mass[i], own[i], (I)rank[i], top[i], v[i]);
        std::copy_n(found, rows, out + at);
    });
}

// Sets with one threshold for all labels of a row -------------------------------------------------

// Fill in a row of which the size is known and the value of its last label: equals of that value
// belong to the set by smaller index.
template <class T> void write_tied(const T *r, I C, I size, T last, I i, I y, const Out &out) {
    I left = size;
    for (I j = 0; j < C; j++) left -= fixed(r[j]) > last;
    for (I j = 0; j < C; j++) {
        const T x = fixed(r[j]);
        const bool in = x > last || (x == last && left-- > 0);
        if (out.mask) out.mask[i * C + j] = in;
        if (out.covered && j == y) out.covered[i] = in;
    }
}

// Decide a row exactly, from any first guess of a height between its set and the rest. Return the
// size of the set and the value of its last label.
template <class T>
I search_row(const T *r, const Formula &f, double top, double u, double q, T height, T &value) {
    const I C = f.C;
    T low = 0, high = 2; // a height that separates lies from low on and below high
    for (int step = 0;; step++) {
        height = height >= low && height < high ? height : low;
        const Cut cut = cut_at<true>(r, C, height);
        const I n = cut.n;
        if (n && !fits(f, cut.mass - cut.last, cut.last, n, top, u, q)) {
            low = height = (T)cut.last; // too low: the label of this value is out
        } else {
            I equal = 0, more = 0;
            double mass = cut.mass, next = cut.next;
            for (I j = 0; j < C; j++) equal += fixed(r[j]) == next;
            while (more < equal && fits(f, mass, next, n + more + 1, top, u, q)) mass += next, more++;
            if (more < equal || n + more == C) {
                value = (T)(more ? next : cut.last);
                return n + more;
            }
            high = (T)next; // too high: all labels of this value are in
            height = below(high);
        }
        if (step > 3) height = cast<T>((Bits<T>)((cast<Bits<T>>(low) + cast<Bits<T>>(high)) / 2)); // bits are in order
    }
}

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


template <class T, int R> HOT void sort_columns(T *s, const std::vector<Pair> &pairs) {
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
    template <bool BY_TOP, class Value> void read(const Formula &f, I k, Value value) {
        const bool until = f.rule == UNTIL && k > 1;
        const double pen = f.penalty[k], pen_before = until ? f.penalty[k - 1] : INF;
        const double step = f.penalty[2], steps = (double)(k - 2), steps_before = until ? steps : INF;
        const double least = k == f.C ? 1.0 : 0.0; // the mass up to the last label is 1
        SIMD for (int i = 0; i < R; i++) {
            const double before = upto[i];
            mass[i] += value(i);
            upto[i] = mass[i] < 1.0 ? mass[i] : 1.0;
            upto[i] = upto[i] > least ? upto[i] : least;
            score[i] = (before + u[i] * (upto[i] - before)) + pen;
            bare[i] = before + pen_before;
            if (BY_TOP) {
                score[i] = k == 1 ? u[i] * top[i] : top[i] + (steps + u[i]) * step;
                bare[i] = top[i] + steps_before * step;
            }
        }
    }
};

// How many labels of some sorted columns fit. They are the first ones, whatever the rule.
template <bool BY_TOP, class T>
HOT void count_fitting(const T *RESTRICT s, const Formula &f, const double *u, const double *RESTRICT q,
                       double *RESTRICT fitting) {
    Scan<G<T>> scan;
    double n[G<T>];
    for (int i = 0; i < G<T>; i++) scan.u[i] = u[i], n[i] = u[i] - u[i];
    scan.start([s](int i) { return (double)s[i]; });
    for (I k = 1; k <= f.C; k++) {
        const T *r = s + (k - 1) * Block<T>::R;
        scan.template read<BY_TOP>(f, k, [r](int i) { return (double)r[i]; });
        SIMD for (int i = 0; i < G<T>; i++) n[i] += (scan.score[i] <= q[i]) | (scan.bare[i] < q[i]) ? 1.0 : 0.0;
    }
    const double least = f.rule == LEQ ? 0.0 : 1.0;
    SIMD for (int i = 0; i < G<T>; i++) fitting[i] = n[i] > least ? n[i] : least;
}

// Mark the labels of a row that are at least `least`. A whole vector is written where there is room:
// what it writes beyond the row is overwritten by the next one.
template <class T> void write_row(const T *r, I C, T least, bool *RESTRICT mask, bool room) {
    constexpr int WIDTH = 16;
    if (room && C <= WIDTH) {
        SIMD for (int j = 0; j < WIDTH; j++) mask[j] = fixed(r[j]) >= least;
    } else {
        SIMD for (I j = 0; j < C; j++) mask[j] = fixed(r[j]) >= least;
    }
}

template <class T>
bool short_sets(const T *p, I n, const Formula &f, const Thresholds &t, const I *y, const Out &out) {
    constexpr int R = Block<T>::R;
    const I C = f.C;
    const std::vector<Pair> pairs = network(C);
    Block<T> b(C);
    double u[R], q[R];
    for (int i = 0; i < R; i++) b.s[i - R] = 2, b.s[C * R + i] = -1; // before and after all labels
    for (int i = 0; i < R && n; i++) u[i] = 1, q[i] = t.q[0];
    return for_blocks<true>(p, n, C, b, [&](I at, I rows) {
        double fitting[R];
        T last[R], next[R];
        if (t.u) take<R>(t.u + at, rows, u);
        if (t.q_step) take<R>(t.q + at, rows, q);
        sort_columns<T, R>(b.s, pairs);
        const auto count = f.by_top ? count_fitting<true, T> : count_fitting<false, T>;
        for (int g = 0; g < R; g += G<T>) count(b.s + g, f, u + g, q + g, fitting + g);
        const T *RESTRICT s = b.s, *RESTRICT row = b.row;
        I sizes[R];
        SIMD for (int i = 0; i < R; i++) {
            sizes[i] = (I)fitting[i];
            last[i] = s[(sizes[i] - 1) * R + i], next[i] = s[sizes[i] * R + i];
        }
        std::copy_n(sizes, rows, out.sizes + at);
        if (out.covered)
            SIMD for (I i = 0; i < rows; i++) out.covered[at + i] = fixed(row[i * C + y[at + i]]) >= last[i];
        for (I i = 0; out.mask && i < rows; i++)
            write_row(row + i * C, C, last[i], out.mask + (at + i) * C, row != b.tail.data() && (at + i) * C + 16 <= n * C);
        int ties = 0;
        for (int i = 0; i < R; i++) ties |= last[i] == next[i];
        for (I i = 0; ties && i < rows; i++)
            if (last[i] == next[i]) write_tied(row + i * C, C, sizes[i], last[i], at + i, y ? y[at + i] : 0, out);
    });
}

// Guess a height for each row of a block, such that the labels above it are the set -----------------
//
// A height is a float32, held as its bits: their order is that of the numbers, and their distance is
// about that of logarithms. A pass counts and weighs the labels above a height with rounded sums;
// `excess` tells by how much the last of them passes the threshold. Two heights enclose the end of a
// set: at `high` the labels fit, at `low` they do not. The next height is interpolated (regula falsi,
// Illinois variant); before both ends were tried, it is a step as wide as earlier rows took.

struct Learned {
    float start, slope; // bits of the first height; how far it moves for each unit of excess
};

template <class T> struct Guess {
    static constexpr int R = 32;
    float height[R], u[R], q[R], base[R], excess[R];
    // Of the labels above a height: number, mass, least; and the largest of the others.
    float n[R], mass[R], last[R], next[R];
    // Both ends, what lies above them and, as bits, by how much they miss the threshold. A pass moves
    // an end inwards, so that each of these numbers is replaced by a maximum or minimum.
    int32_t tried[R], low[R], high[R], n_low[R], n_high[R], over[R], under[R], open[R];
};

constexpr float OPEN = 1e30f; // by how much an end that was not tried misses

// Move the ends to the height that was tried, or one label beyond, and choose the next height. Return
// how many rows need another pass.
template <class T> HOT int choose(const Formula &f, Guess<T> &g, float slope) {
    constexpr int R = Guess<T>::R;
    const float rate = (float)(f.by_top ? f.penalty[2] : f.penalty[f.C] - f.penalty[f.C - 1]);
    const float free = f.by_top || rate <= 0 ? 0.0f : (float)((double)f.C - f.penalty[f.C] / rate);
    const float share = f.by_top ? 0.0f : 1.0f;
    const int32_t open = cast<int32_t>(OPEN), most = std::numeric_limits<int32_t>::max();
    const int32_t coarse = sizeof(T) == 8 ? 1 : 0; // a float32 may lie below the float64 it is made of
    SIMD for (int i = 0; i < R; i++) {
        const float u = g.u[i], base = g.base[i] - g.q[i], last = g.last[i], next = g.next[i];
        const float count = g.n[i] - free, mass = g.mass[i];
        const float free_n = count > 0 ? count : 0.0f, free_more = count > -1 ? count + 1 : 0.0f;
        const float free_less = count > 1 ? count - 1 : 0.0f;
        const float excess = share * (mass - (1.0f - u) * last) + base + rate * free_n;
        const float one_more = share * (mass + u * next) + base + rate * free_more;
        const float one_less = share * (mass - (2.0f - u) * last) + base + rate * free_less;
        g.excess[i] = excess;
        // Either end moves to a height next to a label that was seen.
        const int32_t n = (int32_t)g.n[i], tried = g.tried[i];
        const int32_t at_last = cast<int32_t>(last) + coarse, at_next = cast<int32_t>(next) - 1;
        int32_t low = excess > 0 ? (one_less > 0 ? at_last : at_last - 1) : (one_more > 0 ? tried - 1 : -1);
        int32_t high = excess > 0 ? (one_less > 0 ? most : at_last) : (one_more > 0 ? tried : at_next);
        int32_t n_low = excess > 0 ? n - 1 : (one_more > 0 ? n + 1 : most);
        int32_t n_high = excess > 0 ? (one_less > 0 ? 0 : n - 1) : (one_more > 0 ? n : n + 1);
        float miss = excess > 0 ? one_less : one_more;
        int32_t size = cast<int32_t>(miss < 0 ? -miss : miss);
        int32_t over = excess > 0 ? size : open, under = excess > 0 ? open : size;
        over = over < g.over[i] ? over : g.over[i];
        under = under < g.under[i] ? under : g.under[i];
        low = low > g.low[i] ? low : g.low[i];
        high = high < g.high[i] ? high : g.high[i];
        n_low = n_low < g.n_low[i] ? n_low : g.n_low[i];
        n_high = n_high > g.n_high[i] ? n_high : g.n_high[i];
        g.over[i] = over, g.under[i] = under, g.low[i] = low, g.high[i] = high;
        g.n_low[i] = n_low, g.n_high[i] = n_high;
        // The label at which both ends would meet.
        float up = cast<float>(under), down = cast<float>(over);
        float wide = (float)(high - low), between = (float)(n_low - n_high);
        float label = between * (up / (up + down));
        label = label > 0.3f ? label : 0.3f;
        label = label < between - 0.3f ? label : between - 0.3f;
        float inside = wide * (label / between), outside = (float)(high - tried) - slope * excess;
        float step = over < open ? inside : outside;
        step = under < open ? step : outside;
        step = step > 1 ? step : 1;
        step = step < wide - 1 ? step : wide - 1;
        float more = wide > 1 ? between : 0; // equals, or nothing, may lie between neighbours
        int32_t next_tried = high - (int32_t)step;
        g.tried[i] = more > 1 ? next_tried : high;
        g.open[i] = more > 1 ? 1 : 0;
    }
    int rest = 0;
    for (int i = 0; i < R; i++) rest += g.open[i];
    return rest;
}

// Guess heights for the rows of which p holds the addresses, and the largest number of each.
template <class T> void guess(const T *const *p, const T *top, const Formula &f, Guess<T> &g, Learned &learned) {
    constexpr int R = Guess<T>::R;
    float passed = 0, start = 0, moved = 0;
    for (int i = 0; i < R; i++) {
        g.low[i] = -1, g.high[i] = cast<int32_t>((float)top[i]) + 1;
        g.n_low[i] = (int32_t)f.C, g.n_high[i] = 0;
        g.over[i] = g.under[i] = cast<int32_t>(OPEN);
        g.tried[i] = std::min((int32_t)learned.start, g.high[i] - 1);
        g.open[i] = 1;
    }
    for (int pass = 0; pass < 16; pass++) {
        for (int i = 0; i < R; i++) {
            if (!g.open[i]) continue;
            const Cut cut = cut_at<false>(p[i], f.C, (T)(g.tried[i] < 0 ? -1.0f : cast<float>(g.tried[i])));
            g.n[i] = (float)cut.n, g.mass[i] = (float)cut.mass;
            g.last[i] = (float)cut.last, g.next[i] = (float)cut.next;
        }
        int rest = choose(f, g, learned.slope * (float)(1 << pass));
        for (int i = 0; i < R && pass == 0; i++) passed += std::fabs(g.excess[i]);
        if (rest <= 0) break;
    }
    for (int i = 0; i < R; i++) {
        g.height[i] = g.high[i] < 0 ? -1.0f : cast<float>(g.high[i]);
        start += (float)g.high[i] / R;
        moved += std::fabs((float)g.high[i] - learned.start);
    }
    float seen = passed > 0 ? std::min(moved / passed, 4e9f) : learned.slope;
    learned.start = start;
    learned.slope += 0.25f * (1.25f * seen - learned.slope);
}

// Find the sets of rows; whoever is not sure of a guess decides exactly.
template <class T>
bool long_sets(const T *p, I n, const Formula &f, const Thresholds &t, const I *y, const Out &out) {
    constexpr int R = Guess<T>::R;
    const I C = f.C;
    std::vector<T> x(R * padded<T>(C), -1);
    Guess<T> g;
    Learned learned{(float)cast<int32_t>(1.0f / (float)C), 4.0f * (1 << 23)};
    const double most = 1.0 + f.penalty[C]; // no score is larger
    for (I at = 0; at < n; at += R) {
        const T *row[R];
        T largest[R];
        double u[R], q[R];
        for (int i = 0; i < R; i++) {
            const I k = std::min(at + i, n - 1);
            row[i] = x.data() + i * padded<T>(C);
            if (!copy_row(p + k * C, C, x.data() + i * padded<T>(C), largest[i])) return false;
            u[i] = t.of_u(k), q[i] = t.q[k * t.q_step];
            // A threshold that no score passes needs no search: any other one guides it.
            g.u[i] = (float)u[i], g.q[i] = q[i] >= most ? 0.5f : (float)std::max(q[i], -1e9);
            g.base[i] = f.by_top ? (float)(largest[i] - (2 - u[i]) * f.penalty[2]) : 0.0f;
        }
        guess(row, largest, f, g, learned);
        for (int i = 0; i < std::min<I>(R, n - at); i++) {
            const T *r = row[i], height = (T)g.height[i];
            const I k = at + i;
            const Cut cut = cut_at<true>(r, C, height);
            const double top = capped(fixed(largest[i]));
            bool right = cut.n == 0 || fits(f, cut.mass - cut.last, cut.last, cut.n, top, u[i], q[i]);
            right = right && (cut.n == C || !fits(f, cut.mass, cut.next, cut.n + 1, top, u[i], q[i]));
            if (right) {
                out.sizes[k] = cut.n;
                if (out.covered) out.covered[k] = r[y[k]] > height;
                for (I j = 0; out.mask && j < C; j++) out.mask[k * C + j] = r[j] > height;
            } else {
                T value;
                out.sizes[k] = search_row(r, f, top, u[i], q[i], height, value);
                write_tied(r, C, out.sizes[k], value, k, y ? y[k] : 0, out);
            }
        }
    }
    return true;
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
    Block<T> b(C);
    std::vector<double> keys(C * R + 8);
    double *RESTRICT s = aligned(keys);
    return for_blocks<true>(p, n, C, b, [&](I at, I rows) {
        for (I part = 0; part < rows; part += R) {
            const I some = std::min<I>(R, rows - part);
            for (I j = 0; j < C; j++) {
                const T *r = b.s + j * Block<T>::R + part;
                SIMD for (int i = 0; i < R; i++) {
                    int64_t units = cast<int64_t>(capped(r[i]) + 1.0) - one;
                    s[j * R + i] = cast<double>(units * PACKED + (PACKED - 1 - j) + OFFSET);
                }
            }
            sort_columns<double, R>(s, pairs);
            Scan<R> scan;
            I sizes[R] = {};
            for (I i = 0; i < R; i++) scan.u[i] = u ? u[at + part + std::min(i, some - 1)] : 1.0;
            for (I k = 1; k <= C; k++) {
                const auto value = [r = s + (k - 1) * R, one](int i) {
                    return cast<double>((cast<int64_t>(r[i]) - OFFSET) / PACKED + one) - 1.0;
                };
                if (k == 1) scan.start(value);
                f.by_top ? scan.template read<true>(f, k, value) : scan.template read<false>(f, k, value);
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

// LAC: whether rows are surely probabilities and, if asked, which are at least some number -----------
//
// All that is wanted of a row, or of a block of short rows, is done while it is in the cache.

// Mark the labels of some rows with at least their number: one for all, one a row, or one a label,
// of which there are then `n` times `C`: all rows are one long row.
template <class T>
void mark(const T *RESTRICT p, I n, I C, const T *RESTRICT least, int per, bool *RESTRICT mask) {
    if (per == 0)
        for (I j = 0; j < n * C; j++) mask[j] = p[j] >= *least;
    else if (per == 2)
        for (I j = 0; j < n * C; j++) mask[j] = p[j] >= least[j];
    else
        for (I i = 0; i < n; i++)
            for (I j = 0; j < C; j++) mask[i * C + j] = p[i * C + j] >= least[i];
}

template <class T>
bool lac(const T *p, I n, I C, const T *least, int per, const I *y, const Out &out) {
    constexpr int R = Block<T>::R;
    std::vector<T> each; // the numbers of the labels of a block
    for (I i = 0; per == 2 && i < (C > SHORT ? 1 : R); i++) each.insert(each.end(), least, least + C);
    const auto rest = [&](const T *rows, I at, I many) { // but for counting
        const T *from = per == 1 ? least + at : least;
        if (out.mask) mark(rows, many, C, per == 2 ? each.data() : from, per, out.mask + at * C);
        for (I i = 0; out.covered && i < many; i++) {
            const I j = y[at + i];
            out.covered[at + i] = rows[i * C + j] >= from[per == 1 ? i : per == 2 ? j : 0];
        }
    };
    if (C > SHORT) {
        for (I i = 0; i < n; i++) {
            const T *RESTRICT r = p + i * C, one = least ? least[per == 1 ? i : 0] : 0;
            if (!check_row(r, C)) return false;
            rest(r, i, 1);
            if (!out.sizes) continue;
            Bits<T> count = 0;
            if (per == 2)
                for (I j = 0; j < C; j++) count += r[j] >= least[j];
            else
                for (I j = 0; j < C; j++) count += r[j] >= one;
            out.sizes[i] = count;
        }
        return true;
    }
    Block<T> b(C);
    return for_blocks<false>(p, n, C, b, [&](I at, I rows) {
        rest(p + at * C, at, rows);
        if (!out.sizes) return;
        T own[R];
        Bits<T> count[R] = {};
        for (int i = 0; i < R; i++) own[i] = least[per == 1 ? at + std::min<I>(i, rows - 1) : 0];
        for (I j = 0; j < C; j++) {
            const T *r = b.s + j * R;
            if (per == 2)
                for (int i = 0; i < R; i++) own[i] = least[j];
            SIMD for (int i = 0; i < R; i++) count[i] += r[i] >= own[i];
        }
        for (I i = 0; i < rows; i++) out.sizes[at + i] = (I)count[i];
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

// Write code points as UTF-8, without zeros at the end. Return the number of bytes, -1 if invalid.
I write_utf8(const uint32_t *text, I width, uint8_t *out) {
    while (width && !text[width - 1]) width--;
    uint8_t *to = out;
    for (I i = 0; i < width; i++) {
        const uint32_t c = text[i];
        if (c < 0x80) *to++ = (uint8_t)c;
        else if (c < 0x800) *to++ = (uint8_t)(0xc0 | c >> 6), *to++ = (uint8_t)(0x80 | (c & 63));
        else if (c < 0x10000) {
            if (c >= 0xd800 && c < 0xe000) return -1;
            *to++ = (uint8_t)(0xe0 | c >> 12), *to++ = (uint8_t)(0x80 | (c >> 6 & 63)), *to++ = (uint8_t)(0x80 | (c & 63));
        } else if (c < 0x110000) {
            *to++ = (uint8_t)(0xf0 | c >> 18), *to++ = (uint8_t)(0x80 | (c >> 12 & 63));
            *to++ = (uint8_t)(0x80 | (c >> 6 & 63)), *to++ = (uint8_t)(0x80 | (c & 63));
        } else return -1;
    }
    return to - out;
}

// Keyed hashes of texts; false where one cannot be written as UTF-8.
bool hash_texts(const uint32_t *texts, I n, I width, const uint8_t *key, uint64_t *out) {
    uint8_t padded[128] = {};
    std::memcpy(padded, key, 16);
    const uint8_t *keys[W];
    I full[W];
    for (int i = 0; i < W; i++) keys[i] = padded, full[i] = 256; // not the last block
    Hashes start(16), empty(16);
    start.take(keys, full, 0, 0);
    for (int i = 0; i < W; i++) full[i] = 128; // of no text the key is the last block
    empty.take(keys, full, 0, 0);
    std::vector<I> empties;
    std::vector<uint8_t> memory(W * (4 * width + 1));
    bool valid = true;
    hash_all(n, start, 128, [&](I k, int i, I &length) {
        uint8_t *bytes = memory.data() + i * (4 * width + 1);
        length = write_utf8(texts + k * width, width, bytes);
        valid &= length >= 0;
        length = std::max<I>(length, 0);
        if (!length) empties.push_back(k);
        return bytes;
    }, out);
    for (I k : empties) out[k] = empty.h[0][0];
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

class Array {
  public:
    Array(PyObject *object, I bytes, bool writable = false) {
        view.buf = nullptr, view.obj = nullptr;
        if (object == Py_None) return;
        if (PyObject_GetBuffer(object, &view, writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO)) throw Error();
        if (bytes >= 0 && view.len != bytes) {
            PyErr_Format(PyExc_ValueError, "a buffer must have %zd bytes, got %zd", (Py_ssize_t)bytes, view.len);
            PyBuffer_Release(&view);
            throw Error();
        }
    }
    ~Array() {
        if (view.obj) PyBuffer_Release(&view);
    }
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;
    template <class T> T *as() const { return static_cast<T *>(view.buf); }
    I bytes() const { return (I)view.len; }

  private:
    Py_buffer view;
};

struct Unlocked { // the interpreter's lock, released as long as this lives
    PyThreadState *state = PyEval_SaveThread();
    ~Unlocked() { PyEval_RestoreThread(state); }
};

I integer(PyObject *object) {
    I value = (I)PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred()) throw Error();
    return value;
}
double real(PyObject *object) {
    double value = PyFloat_AsDouble(object);
    if (value == -1 && PyErr_Occurred()) throw Error();
    return value;
}

typedef PyObject *const *Args;
template <PyObject *work(Args), int COUNT> PyObject *call(PyObject *, Args args, Py_ssize_t n) {
    try {
        if (n == COUNT) return work(args);
        PyErr_Format(PyExc_TypeError, "%d arguments are needed, got %zd", COUNT, n);
    } catch (const Error &) {
    } catch (const std::bad_alloc &) {
        PyErr_NoMemory();
    }
    return nullptr;
}
template <class Work> PyObject *truth(Work work) {
    bool found;
    {
        Unlocked unlocked;
        found = work();
    }
    return PyBool_FromLong(found);
}

struct Rows { // the first three arguments: probabilities, how many labels, bytes of each
    Array p;
    I C, n;
    bool single;
    explicit Rows(Args args) : p(args[0], -1), C(integer(args[1])), n(0), single(integer(args[2]) == 4) {
        const I size = single ? 4 : 8;
        if (C < 2 || p.bytes() % (C * size)) {
            PyErr_SetString(PyExc_ValueError, "rows must have at least two labels, all of them");
            throw Error();
        }
        n = p.bytes() / (C * size);
    }
    template <class Work> PyObject *run(Work work) const {
        return truth([&] { return single ? work(p.as<const float>()) : work(p.as<const double>()); });
    }
};

void check_labels(const I *y, I n, I C) {
    for (I i = 0; i < (y ? n : 0); i++)
        if (y[i] < 0 || y[i] >= C) {
            PyErr_SetString(PyExc_ValueError, "a label is outside the classes");
            throw Error();
        }
}

// probabilities, C, size, labels, u, penalties, by_top, scores
PyObject *py_scores(Args args) {
    Rows rows(args);
    Array labels(args[3], 8 * rows.n), u(args[4], 8 * rows.n), penalties(args[5], 8 * (rows.C + 1));
    Array scores(args[7], 8 * rows.n, true);
    Formula f{rows.C, penalties.as<double>(), integer(args[6]) != 0, LEQ};
    check_labels(labels.as<I>(), rows.n, rows.C);
    return rows.run([&](auto *p) {
        return scores_of_labels(p, rows.n, f, labels.as<I>(), u.as<double>(), scores.as<double>());
    });
}

// probabilities, C, size, labels, u, penalties, by_top, rule, q, per, sizes, covered, mask
PyObject *py_sets(Args args) {
    Rows rows(args);
    const I n = rows.n, C = rows.C, per = integer(args[9]);
    Array labels(args[3], 8 * n), u(args[4], 8 * n), penalties(args[5], 8 * (C + 1));
    Array q(args[8], 8 * (per == 0 ? 1 : per == 1 ? n : C)), sizes(args[10], 8 * n, true);
    Array covered(args[11], n, true), mask(args[12], n * C, true);
    Formula f{C, penalties.as<double>(), integer(args[6]) != 0, (Rule)integer(args[7])};
    const I *y = labels.as<I>();
    check_labels(y, n, C);
    Out out{sizes.as<I>(), covered.as<bool>(), mask.as<bool>()};
    if (!out.sizes || !f.penalty || !q.as<double>() || (out.covered && !y) || (per == 2 && C > PACKED)) {
        PyErr_SetString(PyExc_ValueError, "an array is missing, or there are too many labels");
        return nullptr;
    }
    return rows.run([&](auto *p) {
        if (per == 2) return label_sets(p, n, f, u.as<double>(), q.as<double>(), y, out);
        Thresholds t{u.as<double>(), q.as<double>(), per};
        return C <= SHORT ? short_sets(p, n, f, t, y, out) : long_sets(p, n, f, t, y, out);
    });
}

// probabilities, C, size, labels, least, per, sizes, covered, mask; all but the first three may be left out
PyObject *py_lac(Args args) {
    Rows rows(args);
    const I n = rows.n, C = rows.C, per = integer(args[5]);
    Array labels(args[3], 8 * n), least(args[4], (rows.single ? 4 : 8) * (per == 0 ? 1 : per == 1 ? n : C));
    Array sizes(args[6], 8 * n, true), covered(args[7], n, true), mask(args[8], n * C, true);
    check_labels(labels.as<I>(), n, C);
    Out out{sizes.as<I>(), covered.as<bool>(), mask.as<bool>()};
    if (((out.sizes || out.covered || out.mask) && !least.as<char>()) || (out.covered && !labels.as<I>())) {
        PyErr_SetString(PyExc_ValueError, "an array is missing");
        return nullptr;
    }
    return rows.run([&](auto *p) {
        const auto *from = least.as<std::remove_pointer_t<decltype(p)>>();
        return lac(p, n, C, from, (int)per, labels.as<I>(), out);
    });
}

// outputs, width, y, scores
PyObject *py_interval_scores(Args args) {
    const I width = integer(args[1]);
    Array y(args[2], -1), out(args[0], y.bytes() * width), scores(args[3], y.bytes(), true);
    return truth([&] {
        const auto work = width == 1 ? interval_scores<1> : interval_scores<2>;
        return work(out.as<double>(), y.bytes() / 8, y.as<double>(), scores.as<double>());
    });
}

// outputs, width, q_low, q_high, low, high
PyObject *py_interval_ends(Args args) {
    const I width = integer(args[1]);
    const double q_low = real(args[2]), q_high = real(args[3]);
    Array low(args[4], -1, true), out(args[0], low.bytes() * width), high(args[5], low.bytes(), true);
    return truth([&] {
        const auto work = width == 1 ? interval_ends<1> : interval_ends<2>;
        return work(out.as<double>(), low.bytes() / 8, q_low, q_high, low.as<double>(), high.as<double>());
    });
}

// values, rank
PyObject *py_order_statistic(Args args) {
    Array values(args[0], -1);
    const I n = values.bytes() / 8, rank = integer(args[1]);
    if (rank < 1 || rank > n) {
        PyErr_SetString(PyExc_ValueError, "the rank must lie within the sample");
        return nullptr;
    }
    double found;
    {
        Unlocked unlocked;
        found = order_statistic(values.as<double>(), n, rank);
    }
    return PyFloat_FromDouble(found);
}

// code points, width, key, hashes
PyObject *py_hash_texts(Args args) {
    const I width = integer(args[1]);
    Array hashes(args[3], -1, true), texts(args[0], hashes.bytes() / 8 * width * 4), key(args[2], 16);
    return truth([&] {
        return hash_texts(texts.as<uint32_t>(), hashes.bytes() / 8, width, key.as<uint8_t>(), hashes.as<uint64_t>());
    });
}

// rows, bytes of each, hashes
PyObject *py_hash_rows(Args args) {
    const I bytes = integer(args[1]);
    Array hashes(args[2], -1, true), rows(args[0], hashes.bytes() / 8 * bytes);
    return truth([&] {
        hash_rows(rows.as<uint8_t>(), hashes.bytes() / 8, bytes, hashes.as<uint64_t>());
        return true;
    });
}

// Of which version of x86-64 this processor has the instructions: 4, 3, or 0 for neither.
PyObject *py_level(Args) {
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
                         METHOD(interval_scores, 4), METHOD(interval_ends, 6), METHOD(order_statistic, 2),
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
