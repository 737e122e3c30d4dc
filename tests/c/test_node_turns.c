/* How bytes are divided among the streams of a node: by need against evenly, on a clock that is
 * counted. A source brings records one after the other for two readers; each reads at its own pace,
 * and waits where its next record has not come. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "../../csrc/node/foresight/turns.h"
#include "../../csrc/node/foresight/window.h"
#include "check.h"

enum { STREAMS = 2, RECORD_BYTES = 1000, LOOK_NS = 20000000, TICK_NS = 100000 };

/* period_ns: what a reader does with a record. */
struct reader {
    struct fan_turn turn;
    struct fan_window_part part;
    uint64_t period_ns;
    uint64_t brought;
    uint64_t read;
    uint64_t free_ns;
    uint64_t stalled_ns;
};

struct case_ {
    uint64_t period_ns[STREAMS];
    uint64_t source_ns; /* of a record */
    uint64_t window;    /* in records */
    uint64_t seconds;
};

static bool may_take(struct fan_window *window, struct reader *reader, bool full)
{
    reader->part.rests = FAN_POOLS;
    return fan_window_admit(window, &reader->part, FAN_POOL_CACHE, RECORD_BYTES, full);
}

/* The reader whose record comes next, or NULL: there is no room. */
static struct reader *choose(struct fan_queue *turns, struct fan_window *window,
                             struct reader readers[STREAMS], bool evenly, uint64_t now_ns)
{
    static unsigned last;
    bool full = false;
    for (unsigned i = 0; i < STREAMS && evenly; i++) {
        struct reader *reader = &readers[(last + 1 + i) % STREAMS];
        if (window->taken[FAN_POOL_CACHE] + RECORD_BYTES <= window->most[FAN_POOL_CACHE]) {
            last = (unsigned)(reader - readers);
            return reader;
        }
    }
    if (evenly)
        return NULL;
    for (unsigned i = 0; i < STREAMS; i++)
        readers[i].turn.ahead = readers[i].brought - readers[i].read;
    fan_turns_begin(turns, now_ns);
    for (struct fan_turn *turn; (turn = fan_turns_next(turns)) != NULL;) {
        if (may_take(window, (struct reader *)turn, full))
            return (struct reader *)turn;
        full = true;
        fan_turns_hold(turns, turn);
    }
    return NULL;
}

/* What a reader does up to now. */
static void read_on(struct fan_window *window, struct reader *reader, uint64_t now_ns)
{
    while (reader->free_ns <= now_ns) {
        if (reader->brought == reader->read) {
            reader->stalled_ns += TICK_NS;
            reader->free_ns = now_ns + TICK_NS;
            return;
        }
        fan_window_give(window, &reader->part, FAN_POOL_CACHE, RECORD_BYTES);
        reader->read++;
        reader->free_ns += reader->period_ns;
    }
}

static void run(const struct case_ *of, bool evenly, struct reader readers[STREAMS])
{
    struct fan_queue turns = {0};
    struct fan_window window = {.most = {of->window * RECORD_BYTES, 0}};
    struct reader *coming = NULL;
    uint64_t comes_ns = 0;
    for (unsigned i = 0; i < STREAMS; i++) {
        readers[i] = (struct reader){.period_ns = of->period_ns[i]};
        fan_queue_put(&turns, &readers[i].turn.link);
        fan_window_join(&window, &readers[i].part);
    }
    for (uint64_t now_ns = TICK_NS; now_ns < of->seconds * 1000000000; now_ns += TICK_NS) {
        if (coming != NULL && now_ns >= comes_ns) {
            coming->brought++;
            coming = NULL;
        }
        if (coming == NULL && (coming = choose(&turns, &window, readers, evenly, now_ns)) != NULL) {
            fan_window_take(&window, &coming->part, FAN_POOL_CACHE, RECORD_BYTES);
            comes_ns = now_ns + of->source_ns;
        }
        for (unsigned i = 0; i < STREAMS; i++) {
            read_on(&window, &readers[i], now_ns);
            if (now_ns % LOOK_NS == 0)
                fan_pace_note(&readers[i].turn.pace, readers[i].read,
                              readers[i].brought <= readers[i].read, now_ns);
        }
    }
}

static uint64_t worst_stall_ns(const struct reader readers[STREAMS])
{
    uint64_t worst_ns = 0;
    for (unsigned i = 0; i < STREAMS; i++)
        worst_ns = readers[i].stalled_ns > worst_ns ? readers[i].stalled_ns : worst_ns;
    return worst_ns;
}

/* The stream that waits longest waits at most half as long as with an even split. */
static void test_halves(const char *what, struct case_ of)
{
    struct reader even[STREAMS], need[STREAMS];
    run(&of, true, even);
    run(&of, false, need);
    printf("%s: stalled %.1f and %.1f s evenly, %.1f and %.1f s by need\n", what,
           even[0].stalled_ns / 1e9, even[1].stalled_ns / 1e9, need[0].stalled_ns / 1e9,
           need[1].stalled_ns / 1e9);
    CHECK(worst_stall_ns(even) > 1000000000);
    CHECK(2 * worst_stall_ns(need) <= worst_stall_ns(even));
    for (unsigned i = 0; i < STREAMS; i++)
        CHECK(need[i].read > 0);
}

/* A stream that stands still does not keep what another one needs. */
static void test_pause(void)
{
    struct case_ of = {{2000000, UINT64_MAX / 2}, 1000000, 64, 20};
    struct reader readers[STREAMS];
    run(&of, false, readers);
    CHECK(readers[0].stalled_ns < 100000000);
    CHECK(readers[1].brought >= 1);
}

/* One that waits for what is brought does not look slower for that. */
static void test_waiting_is_not_slowness(void)
{
    struct fan_pace pace = {0};
    fan_pace_note(&pace, 0, false, 1);
    fan_pace_note(&pace, 1000, false, 1000000001);
    double period_ns = pace.time_ns / pace.records;
    fan_pace_note(&pace, 1010, true, 2000000001);
    CHECK(pace.time_ns / pace.records == period_ns);
    fan_pace_note(&pace, 1020, false, 3000000001);
    CHECK(pace.time_ns / pace.records > period_ns);
    fan_pace_note(&pace, 9, false, 4000000001); /* an older look says nothing */
    CHECK(pace.read == 1020);
}

/* What one has taken leaves a little for the other; pages of the disk and blocks of the cache are
 * counted apart; who found no room goes on when a part of it is free. */
static void test_window(void)
{
    struct fan_window window = {.most = {800, 100}};
    struct fan_window_part a, b;
    fan_window_join(&window, &a);
    fan_window_join(&window, &b);
    fan_window_take(&window, &a, FAN_POOL_CACHE, 800);
    CHECK(!fan_window_admit(&window, &a, FAN_POOL_CACHE, 1, false));
    CHECK(fan_window_admit(&window, &b, FAN_POOL_PAGES, 100, false));
    CHECK(fan_window_admit(&window, &b, FAN_POOL_CACHE, 100, false));
    CHECK(!fan_window_admit(&window, &b, FAN_POOL_CACHE, 101, false));
    fan_window_give(&window, &a, FAN_POOL_CACHE, 199);
    fan_window_wake(&window, &a, true);
    CHECK(a.rests == FAN_POOL_CACHE);
    fan_window_give(&window, &a, FAN_POOL_CACHE, 1);
    fan_window_wake(&window, &a, true);
    CHECK(a.rests == FAN_POOLS);
    CHECK(fan_window_admit(&window, &a, FAN_POOL_CACHE, 200, false));
    CHECK(!fan_window_admit(&window, &a, FAN_POOL_CACHE, 200, true));
    CHECK(
        !fan_window_admit(&window, &a, FAN_POOL_CACHE, 1000, false)); /* half of all is not free */
    fan_window_give(&window, &a, FAN_POOL_CACHE, 200);
    CHECK(fan_window_admit(&window, &a, FAN_POOL_CACHE, 1000, false));
}

int main(void)
{
    test_window();
    test_halves("window", (struct case_){{2000000, 50000000}, 1000000, 64, 20});
    test_halves("source", (struct case_){{5000000, 50000000}, 4000000, 64, 20});
    test_halves("short window", (struct case_){{2000000, 40000000}, 1500000, 8, 20});
    test_pause();
    test_waiting_is_not_slowness();
    printf("test_node_turns: no fault\n");
    return 0;
}
