/* The end of jobs of many ranks: how many messages it takes, and that it comes whoever is dead. */
#include <stdlib.h>

#include "../../csrc/node/ranks/job_end.h"
#include "../../csrc/node/ranks/ranks.h"
#include "check.h"

enum { RANKS_MOST = 1024, DEADLINE_MS = 10000, STEP_MS = 50 };

/* A world whose ranks take turns by a clock of its own. A message arrives in the next step; to a
 * rank that is dead or has ended, never. */
struct rehearsal {
    uint32_t ranks;
    uint64_t now_ns;
    struct fan_ranks ranks_of[RANKS_MOST];
    struct fan_transport transports[RANKS_MOST];
    bool dead[RANKS_MOST];
    bool ended[RANKS_MOST];
    uint64_t sent[RANKS_MOST];
    struct fan_transport_event *mail;
    uint32_t *addressees;
    uint64_t mail_count;
    uint64_t mail_room;
};

static struct rehearsal world;

static int notify(void *context, uint32_t rank, uint32_t notice)
{
    uint32_t from = *(uint32_t *)context;
    if (world.mail_count == world.mail_room) {
        world.mail_room = world.mail_room * 2 + 1024;
        world.mail = realloc(world.mail, world.mail_room * sizeof(*world.mail));
        world.addressees = realloc(world.addressees, world.mail_room * sizeof(uint32_t));
        CHECK(world.mail != NULL && world.addressees != NULL);
    }
    world.sent[from]++;
    world.addressees[world.mail_count] = rank;
    world.mail[world.mail_count++] =
        (struct fan_transport_event){.kind = FAN_EVENT_NOTICE, .rank = from, .notice = notice};
    return 0;
}

static void begin(uint32_t ranks)
{
    world = (struct rehearsal){.ranks = ranks, .now_ns = 1000000000};
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct fan_ranks *own = &world.ranks_of[rank];
        CHECK(fan_ranks_init(own, rank, ranks, DEADLINE_MS * UINT64_C(1000000)) == 0);
        world.transports[rank] =
            (struct fan_transport){.context = &own->own_rank, .notify = notify};
        own->transport = &world.transports[rank];
    }
}

static void finish_one(uint32_t rank)
{
    world.ranks_of[rank].finishing = true;
    world.ranks_of[rank].finishing_ns = world.now_ns;
}

static bool is_there(uint32_t rank)
{
    return !world.dead[rank] && !world.ended[rank];
}

static void deliver(void)
{
    uint64_t count = world.mail_count;
    struct fan_transport_event *mail = world.mail;
    uint32_t *addressees = world.addressees;
    world.mail_count = world.mail_room = 0;
    world.mail = NULL;
    world.addressees = NULL;
    for (uint64_t i = 0; i < count; i++) {
        if (!is_there(addressees[i]))
            continue;
        fan_ranks_hear(&world.ranks_of[addressees[i]], mail[i].rank, world.now_ns);
        fan_job_end_notice(&world.ranks_of[addressees[i]], &mail[i]);
    }
    free(mail);
    free(addressees);
}

static void step(void)
{
    world.now_ns += STEP_MS * UINT64_C(1000000);
    deliver();
    for (uint32_t rank = 0; rank < world.ranks; rank++) {
        struct fan_ranks *ranks = &world.ranks_of[rank];
        if (!is_there(rank))
            continue;
        fan_job_end_advance(&world.ranks_of[rank], false, world.now_ns);
        world.ended[rank] = ranks->finishing && ranks->all_finished;
    }
}

/* Goes on until all that live have ended; how many milliseconds that took. */
static uint64_t run_to_end(void)
{
    uint64_t since_ns = world.now_ns;
    for (unsigned steps = 0; steps < 20000; steps++) {
        bool all = true;
        for (uint32_t rank = 0; rank < world.ranks; rank++)
            all &= !is_there(rank);
        if (all)
            return (world.now_ns - since_ns) / 1000000;
        step();
    }
    CHECK(!"it ends");
    return 0;
}

static uint64_t total_sent(void)
{
    uint64_t total = 0;
    for (uint32_t rank = 0; rank < world.ranks; rank++)
        total += world.sent[rank];
    return total;
}

static void close_all(void)
{
    deliver();
    for (uint32_t rank = 0; rank < world.ranks; rank++) {
        fan_ranks_fini(&world.ranks_of[rank]);
    }
}

/* All finish at once: a message from each rank to rank 0, and one back. */
static void test_messages(uint32_t ranks)
{
    begin(ranks);
    for (uint32_t rank = 0; rank < ranks; rank++)
        finish_one(rank);
    CHECK(run_to_end() <= 4 * STEP_MS);
    CHECK(total_sent() == 2 * (uint64_t)(ranks - 1) && world.sent[0] == ranks - 1);
    for (uint32_t rank = 1; rank < ranks; rank++)
        CHECK(world.sent[rank] == 1);
    close_all();
}

/* One goes on for a minute: the others wait without asking one another. */
static void test_straggler(uint32_t ranks, uint32_t straggler)
{
    begin(ranks);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (rank != straggler)
            finish_one(rank);
    }
    for (unsigned i = 0; i < 60000 / STEP_MS; i++)
        step();
    for (uint32_t rank = 0; rank < ranks; rank++)
        CHECK(!world.ended[rank] && world.ranks_of[rank].lost_count == 0);
    CHECK(total_sent() <= 3 * 62 * (uint64_t)ranks);
    finish_one(straggler);
    CHECK(run_to_end() <= 4 * STEP_MS);
    close_all();
}

/* `dead` says nothing: it is lost after three deadlines, after one where it was suspect before, and
 * all know that then. */
static void test_dead(uint32_t ranks, uint32_t dead, bool suspect)
{
    begin(ranks);
    world.dead[dead] = true;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        finish_one(rank);
        if (suspect && rank != dead)
            fan_ranks_suspect(&world.ranks_of[rank], dead, world.now_ns);
    }
    uint64_t took_ms = run_to_end();
    CHECK(took_ms >= (suspect ? 1 : 3) * DEADLINE_MS - STEP_MS);
    CHECK(took_ms <= (suspect ? 1 : 3) * DEADLINE_MS + 10 * STEP_MS);
    for (uint32_t rank = 0; rank < ranks; rank++)
        CHECK(rank == dead || (world.ranks_of[rank].lost_count == 1 &&
                               fan_ranks_is_lost(&world.ranks_of[rank], dead)));
    close_all();
}

/* Rank 0 dies between what it tells: who was told nothing asks the others, and all end. */
static void test_half_told(uint32_t ranks)
{
    begin(ranks);
    for (uint32_t rank = 0; rank < ranks; rank++)
        finish_one(rank);
    step();
    step();
    CHECK(world.ended[0]);
    for (uint64_t i = 0; i < world.mail_count; i++) {
        if (world.mail[i].notice == FAN_NOTICE_ALL_FINISHED && world.addressees[i] % 2 == 0)
            world.mail[i].notice = FAN_NOTICE_PONG;
    }
    CHECK(run_to_end() <= 7 * DEADLINE_MS);
    close_all();
}

int main(void)
{
    for (uint32_t ranks = 2; ranks <= RANKS_MOST; ranks *= 2)
        test_messages(ranks);
    test_straggler(64, 0);
    test_straggler(64, 63);
    for (unsigned suspect = 0; suspect < 2; suspect++) {
        test_dead(2, 0, suspect);
        test_dead(64, 0, suspect);
        test_dead(64, 40, suspect);
    }
    test_half_told(64);
    return 0;
}
