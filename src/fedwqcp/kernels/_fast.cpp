// Scores, prediction sets and hashes of ids, ahead of time. `numpy.py` is the reference: every
// number here equals its number to the last bit.
//
// Exactness. A probability is rounded once to a multiple of 2^-52 (`fixed`). Sums of such numbers
// that stay below 2 are exact in float64, in any order. Labels are ranked by these numbers, largest
// first, equals by smaller index. Scores do not fall from one rank to the next, so with one
// threshold for all labels of a row a prediction set is the first few labels in this order.
//
// Layout. All loops work on a block of rows side by side: number j of row i lies at [j * R + i].
// One instruction then treats the same label of several rows, whatever the number of labels, and
// no sum runs across a vector. The compiler makes vectors of the inner loops over i.
//
// Short rows are sorted by a network and scored rank by rank. In long rows a height is *guessed*
// with rounded sums, such that the labels above it are the set; one exact pass then *verifies* it:
// the last label above fits, the first one below does not. A guess that fails costs time and never
// a wrong set: `search_row` decides such a row exactly. So no bound on rounding is needed.
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
#include <memory>
#include <type_traits>
#include <vector>

#if defined(_MSC_VER)
#define SIMD __pragma(loop(ivdep))
#define RESTRICT __restrict
#define HOT __declspec(noinline)
#define PREFETCH(address) ((void)(address))
#else
#define SIMD _Pragma("omp simd")
#define RESTRICT __restrict__
#define PREFETCH(address) __builtin_prefetch(address)
#define HOT __attribute__((noinline)) // compilers vectorise these loops best on their own
#endif

namespace {

typedef int64_t I;
constexpr double INF = std::numeric_limits<double>::infinity();

constexpr I SHORT = 48;       // rows of at most so many labels are sorted by a network
constexpr I LONG = 64;        // scores of longer rows are read row by row
constexpr I PACKED = 1 << 10; // with at most so many, value and index fit into 63 bits
constexpr double SURE = 4.9e-3; // numpy decides on rows whose sum is farther from 1

template <class T> using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
template <class To, class From> inline To cast(From x) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To y;
    std::memcpy(&y, &x, sizeof y);
    return y;
}

// Round to a multiple of 2^-52, half to even: between 1 and 2 that is what a float64 can hold.
// From 1 on the multiples are those of 2^-51; masses are capped at 1, so that changes nothing.
inline double fixed(double x) { return (x + 1.0) - 1.0; }
// The same in units, plus those of 1: one addition less. For numbers of at most 1.
inline int64_t units_from_one(double x) { return cast<int64_t>(x + 1.0); }
const int64_t UNITS_OF_ONE = cast<int64_t>(1.0);

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

struct Thresholds { // u and q: one for all rows (step 0) or one for each (step 1)
    const double *u, *q;
    I u_step, q_step;
    double of_u(I i) const { return u ? u[i * u_step] : 1.0; }
};

struct Out { // what is wanted; null where it is not
    I *sizes;
    bool *covered, *mask;
};

// Blocks of rows side by side ---------------------------------------------------------------------

constexpr int G = 8; // rows whose sums stay in registers

template <class T> struct Block {
    static constexpr int R = 128 / sizeof(T); // rows; 128 bytes are four AVX2 registers
    const T *row[R];
    double total[R];
    T least[R], top[R];
    std::vector<T> memory;
    T *s; // number j of row i at s[j * R + i]
    explicit Block(I C) : memory((C + 2) * R + 64), s(aligned()) {}

  private:
    T *aligned() { // to 64 bytes, with a row of its own before the first label
        auto at = reinterpret_cast<uintptr_t>(memory.data());
        return reinterpret_cast<T *>((at + 63) / 64 * 64) + R;
    }
};

// Sum, least and largest number of half a block. Sums of at most 256 numbers are rounded as these
// are: they err by less than 2e-5, which SURE leaves room for.
template <class T>
HOT void weigh_rows(const T *RESTRICT s, I C, double *RESTRICT total, T *RESTRICT least, T *RESTRICT top) {
    constexpr int H = Block<T>::R / 2;
    T low[H], high[H];
    for (int i = 0; i < H; i++) low[i] = high[i] = s[i], total[i] = 0;
    for (I from = 0; from < C; from += 256) {
        T sum[H] = {};
        for (I j = from; j < std::min<I>(from + 256, C); j++) {
            const T *r = s + j * Block<T>::R;
            SIMD for (int i = 0; i < H; i++) {
                T x = r[i];
                sum[i] += x;
                low[i] = x < low[i] ? x : low[i];
                high[i] = x > high[i] ? x : high[i];
            }
        }
        for (int i = 0; i < H; i++) total[i] += (double)sum[i];
    }
    for (int i = 0; i < H; i++) least[i] = low[i], top[i] = high[i];
}

// Fill a block with at most R rows, the last one again where there are fewer. Return whether all
// are surely probabilities; a NaN makes the total a NaN.
template <class T> bool load(const T *p, I rows, I C, Block<T> &b) {
    constexpr int R = Block<T>::R, W = 8;
    T *RESTRICT s = b.s;
    const uintptr_t ahead = (uintptr_t)(R * C) * sizeof(T);
    for (I i = 0; i < R; i++) b.row[i] = p + std::min(i, rows - 1) * C;
    I j = 0;
    for (; j + W <= C; j += W) { // squares of W by W, which stay in registers
        // Rows are read in columns, which no processor foresees: fetch the next block, a cache line
        // of each row at a time. Where there is none the address is not read.
        if (j * sizeof(T) % 64 == 0)
            for (int i = 0; i < R; i++) PREFETCH(reinterpret_cast<const char *>((uintptr_t)(b.row[i] + j) + ahead));
        for (int i = 0; i < R; i += W) {
            T square[W][W];
            for (int k = 0; k < W; k++) {
                const T *r = b.row[i + k] + j;
                SIMD for (int l = 0; l < W; l++) square[l][k] = r[l];
            }
            for (int l = 0; l < W; l++)
                for (int k = 0; k < W; k++) s[(j + l) * R + i + k] = square[l][k];
        }
    }
    for (; j < C; j++)
        for (int i = 0; i < R; i++) s[j * R + i] = b.row[i][j];
    for (int g = 0; g < R; g += R / 2) weigh_rows<T>(s + g, C, b.total + g, b.least + g, b.top + g);
    bool sure = true;
    for (int i = 0; i < R; i++) sure &= std::fabs(b.total[i] - 1.0) < SURE && b.least[i] >= 0;
    return sure;
}

// Call work(first row, rows) for each block; stop where it returns false.
template <class T, class Work> bool for_blocks(const T *p, I n, I C, Block<T> &b, Work work) {
    for (I at = 0; at < n; at += Block<T>::R) {
        I rows = std::min<I>(Block<T>::R, n - at);
        if (!load(p + at * C, rows, C, b)) return false;
        work(at, rows);
    }
    return true;
}

// Scores of one label of each row -----------------------------------------------------------------

// Units and number of the labels above own, and how many are at least own, for a group of rows.
template <class T>
HOT void weigh_above(const T *RESTRICT s, I C, const double *RESTRICT own, int64_t *RESTRICT before,
                     int64_t *RESTRICT ahead, int64_t *RESTRICT from) {
    double t[G];
    int64_t mass[G] = {}, more[G] = {}, least[G] = {};
    for (int i = 0; i < G; i++) t[i] = own[i] + 1.0;
    for (I j = 0; j < C; j++) {
        const T *r = s + j * Block<T>::R;
        SIMD for (int i = 0; i < G; i++) {
            double x = (double)r[i] + 1.0, in = x > t[i] ? x : 1.0;
            mass[i] += cast<int64_t>(in);
            more[i] += x > t[i];
            least[i] += x >= t[i];
        }
    }
    for (int i = 0; i < G; i++) before[i] = mass[i], ahead[i] = more[i], from[i] = least[i];
}

// Where a label stands in its row, from the sums over the row.
struct Place {
    double own, total, top;
    int64_t units, ahead, from; // units from one of all labels, where those not above count as 0
};

// The score of a label; adds its equals of a smaller index, which come before it.
template <class T> double score_of(const T *r, const Formula &f, I y, Place &at, double u) {
    double before = (double)(int64_t)(at.units - f.C * UNITS_OF_ONE) * 0x1p-52;
    I rank = 1 + at.ahead;
    if (at.from > rank)
        for (I j = 0; j < y; j++)
            if (fixed(r[j]) == at.own) before += at.own, rank++;
    return score(f, before, at.own, rank, capped(fixed(at.top)), u);
}

// One long row, read in order. Returns whether it is surely one of probabilities.
template <class T> HOT bool place_in_row(const T *RESTRICT r, I C, Place &at) {
    const double t = at.own + 1.0;
    double total = 0;
    int64_t units = 0, ahead = 0, from = 0;
    T least = r[0], top = r[0];
    _Pragma("omp simd simdlen(16) reduction(+ : total, units, ahead, from) reduction(min : least) reduction(max : top)")
    for (I j = 0; j < C; j++) {
        double x = (double)r[j] + 1.0, in = x > t ? x : 1.0;
        total += x, units += cast<int64_t>(in);
        ahead += x > t, from += x >= t;
        least = r[j] < least ? r[j] : least;
        top = r[j] > top ? r[j] : top;
    }
    at.total = total - (double)C, at.top = top, at.units = units, at.ahead = ahead, at.from = from;
    return std::fabs(at.total - 1.0) < SURE && least >= 0;
}

template <class T>
bool scores_of_labels(const T *p, I n, const Formula &f, const I *y, const double *u, double *out) {
    constexpr int R = Block<T>::R;
    const I C = f.C;
    if (C > LONG) {
        for (I i = 0; i < n; i++) {
            Place at{};
            at.own = fixed(p[i * C + y[i]]);
            if (!place_in_row(p + i * C, C, at)) return false;
            out[i] = score_of(p + i * C, f, y[i], at, u ? u[i] : 1.0);
        }
        return true;
    }
    Block<T> b(C);
    return for_blocks(p, n, C, b, [&](I at, I rows) {
        double own[R];
        int64_t units[R], ahead[R], from[R];
        for (int i = 0; i < R; i++) own[i] = fixed(b.row[i][y[at + std::min<I>(i, rows - 1)]]);
        for (int g = 0; g < R; g += G) weigh_above(b.s + g, C, own + g, units + g, ahead + g, from + g);
        for (I i = 0; i < rows; i++) {
            Place place{own[i], 1, (double)b.top[i], units[i], ahead[i], from[i]};
            out[at + i] = score_of(b.row[i], f, y[at + i], place, u ? u[at + i] : 1.0);
        }
    });
}

// Sets with one threshold for all labels of a row -------------------------------------------------

// Fill in a row of which the size is known and the value of its last label: equals of that value
// belong to the set by smaller index.
template <class T> void write_tied(const T *r, I C, I size, double last, I i, I y, const Out &out) {
    I left = size;
    for (I j = 0; j < C; j++) left -= fixed(r[j]) > last;
    if (out.covered) out.covered[i] = false;
    for (I j = 0; j < C; j++) {
        double x = fixed(r[j]);
        bool in = x > last || (x == last && left-- > 0);
        if (out.mask) out.mask[i * C + j] = in;
        if (out.covered && j == y) out.covered[i] = in;
    }
}

// What lies above a height and next below it, of one row in fixed point.
struct Cut {
    double n, mass, last, next;
};

HOT Cut cut_at(const double *RESTRICT x, I C, double height) {
    double n = 0, mass = 0, last = 2, next = -1;
    _Pragma("omp simd reduction(+ : n, mass) reduction(min : last) reduction(max : next)")
    for (I j = 0; j < C; j++) {
        double in = x[j] > height ? x[j] : 0.0, one = x[j] > height ? 1.0 : 0.0;
        double above = x[j] > height ? x[j] : 2.0, below = x[j] > height ? -1.0 : x[j];
        n += one, mass += in;
        last = above < last ? above : last;
        next = below > next ? below : next;
    }
    return {n, mass, last, next};
}

// Decide a row exactly, from any first guess of a height between its set and the rest. Return the
// size of the set and the value of its last label.
template <class T>
I search_row(const T *r, const Formula &f, double top, double u, double q, double height,
             double &value, std::vector<double> &x) {
    const I C = f.C;
    x.resize(C);
    for (I j = 0; j < C; j++) x[j] = fixed(r[j]);
    double low = 0, high = 2; // a height that separates lies from low on and below high
    for (int step = 0;; step++) {
        height = height >= low && height < high ? height : low;
        const Cut cut = cut_at(x.data(), C, height);
        const I n = (I)cut.n;
        if (n && !fits(f, cut.mass - cut.last, cut.last, n, top, u, q)) {
            low = height = cut.last; // too low: the label of this value is out
        } else {
            I equal = 0, more = 0;
            double mass = cut.mass, next = cut.next;
            for (I j = 0; j < C; j++) equal += x[j] == next;
            while (more < equal && fits(f, mass, next, n + more + 1, top, u, q)) mass += next, more++;
            if (more < equal || n + more == C) {
                value = more ? next : cut.last;
                return n + more;
            }
            high = next; // too high: all labels of this value are in
            height = cast<double>(cast<I>(next) - 1);
        }
        if (step > 3) height = cast<double>((cast<I>(low) + cast<I>(high)) / 2); // bits are in order
    }
}

// Batcher's sorting network, largest first: merges runs of 1, 2, 4, ... places.
template <class Swap> void batcher(I n, Swap swap) {
    for (I run = 1; run < n; run *= 2)
        for (I gap = run; gap; gap /= 2)
            for (I start = gap % run; start < n - gap; start += 2 * gap)
                for (I a = start; a < std::min(start + gap, n - gap); a++)
                    if (a / (2 * run) == (a + gap) / (2 * run)) swap(a, a + gap);
}

struct Pair {
    int32_t a, b;
};

std::vector<Pair> network(I n) {
    std::vector<Pair> pairs;
    batcher(n, [&](I a, I b) { pairs.push_back({(int32_t)a, (int32_t)b}); });
    return pairs;
}

template <class T, int R> HOT void sort_columns(T *s, const std::vector<Pair> &pairs) {
    for (const Pair &pair : pairs) {
        T *RESTRICT a = s + (I)pair.a * R;
        T *RESTRICT b = s + (I)pair.b * R;
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
    double u[R], top[R], mass[R];
    double score[R]; // at the rank that was read last
    double bare[R];  // what "until" compares: the score of the rank before without its random part

    template <class Value> HOT void read(const Formula &f, I k, Value value) {
        const double pen = f.penalty[k], step = f.penalty[2], steps = (double)(k - 2);
        const double pen_before = k > 1 ? f.penalty[k - 1] : INF;
        const double steps_before = k > 2 ? (double)(k - 3) + 1.0 : 0.0;
        if (k == 1) {
            SIMD for (int i = 0; i < R; i++) {
                double t = value(i);
                top[i] = t < 1.0 ? t : 1.0;
                mass[i] = 0;
            }
        }
        if (f.by_top && k == 1) {
            SIMD for (int i = 0; i < R; i++) score[i] = u[i] * top[i];
        } else if (f.by_top) {
            SIMD for (int i = 0; i < R; i++) {
                score[i] = top[i] + (steps + u[i]) * step;
                bare[i] = top[i] + steps_before * step;
            }
        } else {
            const double least = k == f.C ? 1.0 : 0.0; // the mass up to the last label is 1
            SIMD for (int i = 0; i < R; i++) {
                double before = mass[i] < 1.0 ? mass[i] : 1.0;
                mass[i] += value(i);
                double upto = mass[i] < 1.0 ? mass[i] : 1.0;
                upto = upto > least ? upto : least;
                score[i] = (before + u[i] * (upto - before)) + pen;
                bare[i] = before + pen_before;
            }
        }
    }
};

// How many labels of each sorted column fit, where nothing is random and the rule is "leq".
template <class T>
HOT void count_plain(const T *RESTRICT s, const Formula &f, const double *RESTRICT q, double *RESTRICT fitting) {
    constexpr int R = Block<T>::R;
    double mass[R] = {}, n[R] = {};
    for (I k = 1; k <= f.C; k++) {
        const T *r = s + (k - 1) * R;
        const double pen = f.penalty[k], least = k == f.C ? 1.0 : 0.0;
        SIMD for (int i = 0; i < R; i++) {
            double upto = mass[i] += fixed(r[i]);
            upto = upto < 1.0 ? upto : 1.0;
            upto = upto > least ? upto : least;
            n[i] += upto + pen <= q[i] ? 1.0 : 0.0;
        }
    }
    for (int i = 0; i < R; i++) fitting[i] = n[i];
}

template <class T>
void count_fitting(const T *s, const Formula &f, const double *u, const double *q, double *fitting) {
    constexpr int R = Block<T>::R;
    Scan<R> scan;
    for (int i = 0; i < R; i++) scan.u[i] = u[i], fitting[i] = 0;
    for (I k = 1; k <= f.C; k++) {
        const T *r = s + (k - 1) * R;
        scan.read(f, k, [r](int i) { return fixed(r[i]); });
        SIMD for (int i = 0; i < R; i++) fitting[i] += scan.score[i] <= q[i] ? 1.0 : 0.0;
        if (k == 1 && f.rule != LEQ)
            for (int i = 0; i < R; i++) fitting[i] = 1;
        if (k > 1 && f.rule == UNTIL) // those that fit by it alone
            for (int i = 0; i < R; i++) fitting[i] += scan.score[i] > q[i] && scan.bare[i] < q[i];
    }
}

// Mark the labels of a row that are at least `least`. A whole vector is written where there is room:
// what it writes beyond the row is overwritten by the next one.
template <class T> void write_row(const T *r, I C, T least, bool *RESTRICT mask, bool room) {
    constexpr int WIDTH = 16;
    if (room && C <= WIDTH) {
        SIMD for (int j = 0; j < WIDTH; j++) mask[j] = r[j] >= least;
    } else {
        SIMD for (I j = 0; j < C; j++) mask[j] = r[j] >= least;
    }
}

template <class T>
bool short_sets(const T *p, I n, const Formula &f, const Thresholds &t, const I *y, const Out &out) {
    constexpr int R = Block<T>::R;
    const I C = f.C;
    const std::vector<Pair> pairs = network(C);
    Block<T> b(C);
    for (int i = 0; i < R; i++) b.s[i - R] = 2, b.s[C * R + i] = -1; // before and after all labels
    return for_blocks(p, n, C, b, [&](I at, I rows) {
        double u[R], q[R], fitting[R], tied[R];
        T last[R], next[R];
        for (int i = 0; i < R; i++) {
            I k = at + std::min<I>(i, rows - 1);
            u[i] = t.of_u(k), q[i] = t.q[k * t.q_step];
        }
        sort_columns<T, R>(b.s, pairs);
        if (t.u || f.by_top || f.rule != LEQ) count_fitting(b.s, f, u, q, fitting);
        else count_plain(b.s, f, q, fitting);
        for (int i = 0; i < R; i++) {
            const I end = (I)fitting[i] * R + i;
            last[i] = b.s[end - R], next[i] = b.s[end];
        }
        SIMD for (int i = 0; i < R; i++) tied[i] = fixed(last[i]) == fixed(next[i]) ? 1.0 : 0.0;
        double ties = 0;
        for (int i = 0; i < R; i++) ties += tied[i];
        for (I i = 0; i < rows; i++) out.sizes[at + i] = (I)fitting[i];
        if (out.covered)
            for (I i = 0; i < rows; i++) out.covered[at + i] = b.row[i][y[at + i]] >= last[i];
        if (out.mask)
            for (I i = 0; i < rows; i++)
                write_row(b.row[i], C, last[i], out.mask + (at + i) * C, (at + i) * C + 16 <= n * C);
        for (I i = 0; i < rows && ties > 0; i++)
            if (tied[i]) write_tied(b.row[i], C, (I)fitting[i], fixed(last[i]), at + i, y ? y[at + i] : 0, out);
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
    static constexpr int R = Block<T>::R;
    float height[R], u[R], q[R], base[R], excess[R];
    // Of the labels above a height: number, mass, least; and the largest of the others.
    float n[R], mass[R], last[R], next[R];
    // Both ends, what lies above them and, as bits, by how much they miss the threshold. A pass moves
    // an end inwards, so that each of these numbers is replaced by a maximum or minimum.
    int32_t tried[R], low[R], high[R], n_low[R], n_high[R], over[R], under[R], open[R];
};

template <class T> HOT void count_above(const Block<T> &b, I C, int g, Guess<T> &guess) {
    constexpr int R = Block<T>::R, H = R / 2;
    T h[H], m[H] = {}, last[H], next[H];
    Bits<T> c[H] = {};
    for (int i = 0; i < H; i++) h[i] = (T)guess.height[g + i], last[i] = 2, next[i] = -1;
    for (I j = 0; j < C; j++) {
        const T *r = b.s + j * R + g;
        SIMD for (int i = 0; i < H; i++) {
            T x = r[i], above = x > h[i] ? x : (T)2, below = x > h[i] ? (T)-1 : x;
            last[i] = above < last[i] ? above : last[i];
            next[i] = below > next[i] ? below : next[i];
            m[i] += x > h[i] ? x : (T)0;
            c[i] += x > h[i];
        }
    }
    for (int i = 0; i < H; i++) {
        guess.n[g + i] = (float)c[i], guess.mass[g + i] = (float)m[i];
        guess.last[g + i] = (float)last[i], guess.next[g + i] = (float)next[i];
    }
}

constexpr float OPEN = 1e30f; // by how much an end that was not tried misses

// Move the ends to the height that was tried, or one label beyond, and choose the next height. Return
// how many rows need another pass.
template <class T> HOT int choose(const Formula &f, Guess<T> &g, float slope) {
    constexpr int R = Block<T>::R;
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

template <class T> void guess(const Block<T> &b, const Formula &f, Guess<T> &g, Learned &learned) {
    constexpr int R = Block<T>::R;
    float passed = 0, start = 0, moved = 0;
    for (int i = 0; i < R; i++) {
        g.low[i] = -1, g.high[i] = cast<int32_t>((float)b.top[i]) + 1;
        g.n_low[i] = (int32_t)f.C, g.n_high[i] = 0;
        g.over[i] = g.under[i] = cast<int32_t>(OPEN);
        g.tried[i] = std::min((int32_t)learned.start, g.high[i] - 1);
    }
    for (int pass = 0; pass < 16; pass++) {
        for (int i = 0; i < R; i++) g.height[i] = g.tried[i] < 0 ? -1.0f : cast<float>(g.tried[i]);
        for (int i = 0; i < R; i += R / 2) count_above(b, f.C, i, g);
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

// Verify heights: the labels above are the set, and in fixed point none below equals one of them.
template <class T> struct Verified {
    static constexpr int R = Block<T>::R;
    int64_t n[R], units[R];
    T last[R], next[R];
};

template <class T>
HOT void verify(const Block<T> &b, I C, int g, const float *height, Verified<T> &v) {
    T h[G], last[G], next[G];
    Bits<T> n[G] = {};
    int64_t units[G] = {};
    for (int i = 0; i < G; i++) h[i] = (T)height[g + i], last[i] = 2, next[i] = -1;
    for (I j = 0; j < C; j++) {
        const T *r = b.s + j * Block<T>::R + g;
        SIMD for (int i = 0; i < G; i++) {
            T x = r[i], above = x > h[i] ? x : (T)2, below = x > h[i] ? (T)-1 : x;
            T in = x > h[i] ? x : (T)0;
            last[i] = above < last[i] ? above : last[i];
            next[i] = below > next[i] ? below : next[i];
            n[i] += x > h[i];
            units[i] += units_from_one((double)in);
        }
    }
    for (int i = 0; i < G; i++) v.n[g + i] = n[i], v.units[g + i] = units[i], v.last[g + i] = last[i], v.next[g + i] = next[i];
}

template <class T>
bool long_sets(const T *p, I n, const Formula &f, const Thresholds &t, const I *y, const Out &out) {
    constexpr int R = Block<T>::R;
    const I C = f.C;
    Block<T> b(C);
    Guess<T> g;
    Verified<T> v;
    std::vector<double> x;
    Learned learned{(float)cast<int32_t>(1.0f / (float)C), 4.0f * (1 << 23)};
    const double most = 1.0 + f.penalty[C]; // no score is larger
    return for_blocks(p, n, C, b, [&](I at, I rows) {
        double u[R], q[R];
        for (int i = 0; i < R; i++) {
            I k = at + std::min<I>(i, rows - 1);
            u[i] = t.of_u(k), q[i] = t.q[k * t.q_step];
            // A threshold that no score passes needs no search: any other one guides it.
            g.u[i] = (float)u[i], g.q[i] = q[i] >= most ? 0.5f : (float)std::max(q[i], -1e9);
            g.base[i] = f.by_top ? (float)(b.top[i] - (2 - u[i]) * f.penalty[2]) : 0.0f;
        }
        guess(b, f, g, learned);
        for (int i = 0; i < R; i += G) verify(b, C, i, g.height, v);
        for (I i = 0; i < rows; i++) {
            const T *r = b.row[i];
            const I k = at + i, above = v.n[i];
            const double mass = (double)(int64_t)(v.units[i] - C * UNITS_OF_ONE) * 0x1p-52;
            if (q[i] >= most) {
                out.sizes[k] = C;
                if (out.covered) out.covered[k] = true;
                if (out.mask) std::memset(out.mask + k * C, 1, (size_t)C);
                continue;
            }
            const double top = capped(fixed(b.top[i])), last = fixed(v.last[i]), next = fixed(v.next[i]);
            bool right = above == 0 || fits(f, mass - last, last, above, top, u[i], q[i]);
            right = right && (above == C || !fits(f, mass, next, above + 1, top, u[i], q[i]));
            if (!right || last == next || b.top[i] > 1) { // units are those of numbers up to 1
                double value, height = g.height[i];
                I size = search_row(r, f, top, u[i], q[i], height, value, x);
                out.sizes[k] = size;
                write_tied(r, C, size, value, k, y ? y[k] : 0, out);
                continue;
            }
            const T height = (T)g.height[i];
            out.sizes[k] = above;
            if (out.covered) out.covered[k] = r[y[k]] > height;
            if (out.mask) {
                bool *RESTRICT mask = out.mask + k * C;
                SIMD for (I j = 0; j < C; j++) mask[j] = r[j] > height;
            }
        }
    });
}

template <class T>
bool sets(const T *p, I n, const Formula &f, const Thresholds &t, const I *y, const Out &out) {
    return f.C <= SHORT ? short_sets(p, n, f, t, y, out) : long_sets(p, n, f, t, y, out);
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
    constexpr int R = 16, STEP = Block<T>::R;
    const I C = f.C;
    const int64_t one = cast<int64_t>(1.0);
    const std::vector<Pair> pairs = network(C);
    Block<T> b(C);
    std::vector<double> keys(C * R);
    double *RESTRICT s = keys.data();
    return for_blocks(p, n, C, b, [&](I at, I rows) {
        for (I part = 0; part < rows; part += R) {
            const I some = std::min<I>(R, rows - part);
            for (I j = 0; j < C; j++) {
                const T *r = b.s + j * STEP + part;
                SIMD for (int i = 0; i < R; i++) {
                    double x = fixed(r[i]) < 1.0 ? fixed(r[i]) : 1.0;
                    int64_t units = cast<int64_t>(x + 1.0) - one;
                    s[j * R + i] = cast<double>(units * PACKED + (PACKED - 1 - j) + OFFSET);
                }
            }
            sort_columns<double, R>(s, pairs);
            Scan<R> scan;
            I sizes[R] = {};
            for (I i = 0; i < R; i++) scan.u[i] = u ? u[at + part + std::min(i, some - 1)] : 1.0;
            for (I k = 1; k <= C; k++) {
                const double *r = s + (k - 1) * R;
                scan.read(f, k, [r, one](int i) {
                    int64_t units = (cast<int64_t>(r[i]) - OFFSET) / PACKED;
                    return cast<double>(units + one) - 1.0;
                });
                for (I i = 0; i < some; i++) {
                    const I j = PACKED - 1 - (cast<int64_t>(r[i]) & (PACKED - 1)), row = at + part + i;
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

// How many probabilities of a row are at least some number, and whether one label's is (LAC) -------

template <class T>
bool count_from(const T *p, I n, I C, const T *least, int per, const I *y, const Out &out) {
    constexpr int R = Block<T>::R;
    Block<T> b(C);
    return for_blocks(p, n, C, b, [&](I at, I rows) {
        T own[R];
        Bits<T> count[R] = {};
        for (int i = 0; i < R; i++) own[i] = least[per == 1 ? at + std::min<I>(i, rows - 1) : 0];
        for (I j = 0; j < C; j++) {
            const T *r = b.s + j * R;
            if (per == 2)
                for (int i = 0; i < R; i++) own[i] = least[j];
            SIMD for (int i = 0; i < R; i++) count[i] += r[i] >= own[i];
        }
        for (I i = 0; i < rows; i++) {
            const I k = at + i;
            out.sizes[k] = (I)count[i];
            out.covered[k] = b.row[i][y[k]] >= (per == 2 ? least[y[k]] : own[i]);
        }
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

// Return whether all numbers were finite: x - x is 0 for these alone.
bool interval_scores(const double *out, I n, I width, const double *y, double *scores) {
    bool finite = true;
    for (I i = 0; i < n; i++) {
        double a = out[i * width], b = out[i * width + width - 1];
        double below = distance(-(a < b ? a : b), -y[i]), above = distance(a < b ? b : a, y[i]);
        scores[i] = below > above ? below : above;
        finite &= (a - a == 0) & (b - b == 0) & (y[i] - y[i] == 0);
    }
    return finite;
}

bool interval_ends(const double *out, I n, I width, double q_low, double q_high, double *low,
                   double *high) {
    bool finite = true;
    for (I i = 0; i < n; i++) {
        double a = out[i * width], b = out[i * width + width - 1];
        low[i] = -reach(-(a < b ? a : b), q_low);
        high[i] = reach(a < b ? b : a, q_high);
        finite &= (a - a == 0) & (b - b == 0);
    }
    return finite;
}

// Order statistics --------------------------------------------------------------------------------

// The value of a rank, from 1 to n. A sorted sample gives two values that surely enclose it, but for
// bad luck; one pass counts what lies below and keeps what lies between.
double order_statistic(const double *values, I n, I rank) {
    constexpr I SAMPLE = 1 << 12;
    std::vector<double> kept;
    I below = 0;
    if (n >= 2 * SAMPLE) {
        std::vector<double> sample(SAMPLE);
        for (I i = 0; i < SAMPLE; i++) sample[i] = values[i * (n / SAMPLE)];
        std::sort(sample.begin(), sample.end());
        const double share = (double)rank / (double)n, margin = 4 * std::sqrt(SAMPLE * share * (1 - share)) + 4;
        const double first = SAMPLE * share - margin, last = SAMPLE * share + margin;
        const double low = first < 0 ? -INF : sample[(I)first];
        const double high = last >= SAMPLE ? INF : sample[(I)last];
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

PyObject *py_check(Args args) {
    Rows rows(args);
    return rows.run([&](auto *p) {
        Block<std::remove_const_t<std::remove_pointer_t<decltype(p)>>> block(rows.C);
        return for_blocks(p, rows.n, rows.C, block, [](I, I) {});
    });
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
        Thresholds t{u.as<double>(), q.as<double>(), u.as<double>() ? 1 : 0, per};
        return sets(p, n, f, t, y, out);
    });
}

// probabilities, C, size, labels, least, per, sizes, covered
PyObject *py_count_from(Args args) {
    Rows rows(args);
    const I n = rows.n, C = rows.C, per = integer(args[5]);
    Array labels(args[3], 8 * n), least(args[4], (rows.single ? 4 : 8) * (per == 0 ? 1 : per == 1 ? n : C));
    Array sizes(args[6], 8 * n, true), covered(args[7], n, true);
    check_labels(labels.as<I>(), n, C);
    Out out{sizes.as<I>(), covered.as<bool>(), nullptr};
    return rows.run([&](auto *p) {
        return count_from(p, n, C, least.as<std::remove_pointer_t<decltype(p)>>(), (int)per, labels.as<I>(), out);
    });
}

// outputs, width, y, scores
PyObject *py_interval_scores(Args args) {
    const I width = integer(args[1]);
    Array y(args[2], -1), out(args[0], y.bytes() * width), scores(args[3], y.bytes(), true);
    return truth([&] {
        return interval_scores(out.as<double>(), y.bytes() / 8, width, y.as<double>(), scores.as<double>());
    });
}

// outputs, width, q_low, q_high, low, high
PyObject *py_interval_ends(Args args) {
    const I width = integer(args[1]);
    const double q_low = real(args[2]), q_high = real(args[3]);
    Array low(args[4], -1, true), out(args[0], low.bytes() * width), high(args[5], low.bytes(), true);
    return truth([&] {
        return interval_ends(out.as<double>(), low.bytes() / 8, width, q_low, q_high, low.as<double>(), high.as<double>());
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

// Whether this processor has the instructions of x86-64-v3.
PyObject *py_supports_v3(Args) {
#if defined(__x86_64__) && defined(__GNUC__)
    return PyBool_FromLong(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma"));
#else
    Py_RETURN_FALSE;
#endif
}

#define METHOD(name, count) {#name, (PyCFunction)(void (*)(void))call<py_##name, count>, METH_FASTCALL, nullptr}
PyMethodDef methods[] = {METHOD(check, 3), METHOD(scores, 8), METHOD(sets, 13), METHOD(count_from, 8),
                         METHOD(interval_scores, 4), METHOD(interval_ends, 6), METHOD(order_statistic, 2),
                         METHOD(hash_texts, 4), METHOD(hash_rows, 3), METHOD(supports_v3, 0), {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, TEXT(FAST_MODULE), nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

} // namespace

#define JOIN(a, b) a##b
#define INIT(name) JOIN(PyInit_, name)
PyMODINIT_FUNC INIT(FAST_MODULE)(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddStringConstant(module, "DIGEST", FAST_DIGEST)) Py_CLEAR(module);
    return module;
}
