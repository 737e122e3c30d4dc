/* Changes of names that another rank keeps, through two nodes of one process: what is done there is
 * noted here, in the same order, whoever is killed; and nothing is under way when it is said so. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../csrc/changes/elsewhere.h"
#include "../../csrc/names/follow.h"
#include "check.h"
#include "node_client.h"
#include "node_world.h"

enum { RANKS = 2, HOME = 1, MOST = 16 << 20, LONG_MS = 30000, THREADS = 3, ROUNDS = 300 };
enum { LOG_MAX = 8000, KEYS_BYTES = 32 };

static struct fan_names_writer *writers[RANKS];
static struct fan_names segments[RANKS];
static char directory[8]; /* of which HOME keeps the names, and its own name's */

static void open_segment(uint32_t rank)
{
    char path[4096];
    world_segment_path(rank, path);
    strcpy(strrchr(path, '/') + 1, "names");
    unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && fan_names_open(dup(fd), rank, RANKS, MOST, &writers[rank]) == 0);
    void *at = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED && fan_names_attach(&segments[rank], at, MOST) == 0);
    close(fd);
    uint32_t bytes = (uint32_t)strlen(directory);
    if (rank == HOME) {
        CHECK(fan_names_cover(writers[rank], 0, directory, bytes) == 0);
        fan_names_open_directory(writers[rank], 0, directory, bytes);
    }
    fan_names_let(writers[rank]);
}

static void choose_directory(void)
{
    struct fan_names_header *header = calloc(1, sizeof(*header));
    const struct fan_names two = {header, sizeof(*header)};
    header->world_size = RANKS;
    for (unsigned i = 0; i < 100; i++) {
        snprintf(directory, sizeof(directory), "d%u", i);
        if (fan_names_home(&two, 0, directory, strlen(directory)) == HOME)
            break;
    }
    free(header);
}

static struct fan_names_path at(const char *path)
{
    return (struct fan_names_path){0, path, strlen(path), 0};
}

static struct fan_changer self(uint32_t rank)
{
    return (struct fan_changer){.names = segments[rank],
                                .thread = (uint32_t)syscall(SYS_gettid),
                                .rank = rank,
                                .pid = (uint32_t)getpid()};
}

static uint32_t state_of(struct fan_question *question)
{
    return __atomic_load_n(&question->state, __ATOMIC_SEQ_CST);
}

static void ring(struct node_client *client)
{
    __atomic_store_n(&client->session->wanted, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_or(&client->header->wanted_sessions[client->number / 64],
                      UINT64_C(1) << client->number % 64, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&client->header->doorbell, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &client->header->doorbell, 1, 1, NULL, NULL, 0);
}

static void fill(struct fan_question *question, const struct fan_wish *wish)
{
    question->change = wish->change;
    question->change.path_bytes = (uint32_t)wish->path.bytes;
    question->change.other_bytes = (uint32_t)wish->other.bytes;
    question->base_bytes = question->other_base_bytes = 0;
    question->how = (wish->replace ? FAN_QUESTION_REPLACE : 0u) |
                    (wish->directory ? FAN_QUESTION_DIRECTORY : 0u);
    memcpy(question->text, wish->path.text, wish->path.bytes);
    memcpy(question->text + wish->path.bytes, wish->other.text, wish->other.bytes);
}

/* Begins a change, and rings if it is said so; the caller is killed then, perhaps. */
static struct fan_question *begin(struct node_client *client, struct fan_wish *wish, bool rings)
{
    struct fan_changer changer = self(0);
    struct fan_question *question = &client->session->questions[2];
    uint32_t home = HOME;
    wish->change.pid = (uint32_t)getpid();
    if (!fan_elsewhere_begin(&changer, &wish->change, &home))
        return NULL;
    CHECK(home == HOME && state_of(question) == FAN_QUESTION_FREE);
    fill(question, wish);
    question->home = home;
    __atomic_store_n(&question->state, FAN_QUESTION_ASKED, __ATOMIC_SEQ_CST);
    if (rings)
        ring(client);
    fan_elsewhere_begun(&changer);
    return question;
}

static int make(struct node_client *client, struct fan_wish *wish)
{
    struct fan_question *question = begin(client, wish, true);
    if (question == NULL)
        return FAN_NAMES_ASK;
    EVENTUALLY(state_of(question) == FAN_QUESTION_ANSWERED);
    int rc = question->rc;
    wish->change = question->change;
    __atomic_store_n(&question->state, FAN_QUESTION_FREE, __ATOMIC_SEQ_CST);
    return rc;
}

static struct fan_wish wish_of(enum fan_change_kind kind, const char *path, const char *other)
{
    return (struct fan_wish){.change.kind = (uint16_t)kind, .path = at(path), .other = at(other)};
}

static int create(struct node_client *client, const char *path, uint64_t *object)
{
    struct fan_wish wish = wish_of(FAN_CHANGE_CREATED, path, "");
    wish.change.attr.mode = S_IFREG | 0644;
    int rc = make(client, &wish);
    *object = wish.change.object;
    return rc;
}

static int publish(struct node_client *client, uint64_t object, uint64_t size)
{
    struct fan_wish wish = wish_of(FAN_CHANGE_PUBLISHED, "", "");
    wish.change.object = object;
    wish.change.attr = (struct fan_output_attr){.mode = S_IFREG | 0644, .size = size};
    return make(client, &wish);
}

static int put(struct node_client *client, const char *path, uint64_t size)
{
    uint64_t object;
    int rc = create(client, path, &object);
    return rc == 0 ? publish(client, object, size) : rc;
}

static int move(struct node_client *client, const char *from, const char *to, uint64_t *gone)
{
    struct fan_wish wish = wish_of(FAN_CHANGE_MOVED, from, to);
    wish.replace = true;
    int rc = make(client, &wish);
    *gone = wish.change.gone;
    return rc;
}

static int drop(struct node_client *client, const char *path, bool is_directory)
{
    struct fan_wish wish = wish_of(FAN_CHANGE_REMOVED, path, "");
    wish.directory = is_directory;
    return make(client, &wish);
}

static int make_directory(struct node_client *client, const char *path)
{
    struct fan_wish wish = wish_of(FAN_CHANGE_MADE, path, "");
    wish.change.attr = (struct fan_output_attr){.mode = S_IFDIR | 0755, .nlink = 2};
    return make(client, &wish);
}

static int seen(const char *path, uint64_t *size)
{
    char target[FAN_NAMES_PATH_MAX];
    struct fan_output_attr attr;
    struct fan_names_path named = at(path);
    int rc = fan_names_look(&segments[HOME], &named, false, &attr, target, sizeof(target));
    *size = rc == 0 ? attr.size : 0;
    return rc;
}

/* What a log has of this rank's programs: kind and object of each, which are followed then. */
static unsigned take_log(uint32_t rank, uint64_t (*found)[2])
{
    const char *log;
    fan_names_hold(writers[rank]);
    uint64_t bytes = fan_names_log(writers[rank], &log);
    unsigned count = 0;
    for (uint64_t done = 0; done < bytes;) {
        struct fan_change change;
        memcpy(&change, log + done, sizeof(change));
        CHECK(change.bytes >= sizeof(change) && change.bytes <= bytes - done);
        CHECK(((change.kind & FAN_CHANGE_ELSEWHERE) != 0) == (rank != HOME));
        if (change.rank == 0 && count < LOG_MAX) {
            found[count][0] = change.kind & ~(unsigned)FAN_CHANGE_ELSEWHERE;
            found[count++][1] = change.object ^ change.gone << 1 ^ (uint64_t)change.when_ns;
        }
        done += change.bytes;
    }
    fan_names_followed(writers[rank], bytes);
    fan_names_let(writers[rank]);
    return count;
}

/* Both logs have the same, and so many. */
static unsigned compare_logs(void)
{
    static uint64_t here[LOG_MAX][2], there[LOG_MAX][2];
    unsigned count = take_log(0, here);
    CHECK(fan_elsewhere_under_way(&segments[0]) == 0);
    CHECK(count < LOG_MAX && take_log(HOME, there) == count);
    CHECK(memcmp(here, there, count * sizeof(here[0])) == 0);
    return count;
}

static const char *in(const char *name)
{
    static __thread char texts[4][64];
    static __thread unsigned next;
    char *text = texts[next++ % 4];
    snprintf(text, sizeof(texts[0]), "%s/%s", directory, name);
    return text;
}

static void test_what_they_do(struct node_client *client)
{
    uint64_t first, second, size, gone;
    CHECK(create(client, in("a"), &first) == 0 && seen(in("a"), &size) == FAN_NAMES_ASK);
    CHECK(first >> 40 == 0 && create(client, in("a"), &second) == FAN_NAMES_ASK);
    CHECK(drop(client, in("a"), false) == FAN_NAMES_ASK && drop(client, in("x"), false) != 0);
    CHECK(publish(client, first, 5) == 0 && publish(client, first, 5) == FAN_NAMES_ASK);
    CHECK(seen(in("a"), &size) == 0 && size == 5);
    CHECK(put(client, in("b"), 6) == 0 && move(client, in("a"), in("b"), &gone) == 0);
    CHECK(gone != 0 && gone != first && seen(in("b"), &size) == 0 && size == 5);
    CHECK(seen(in("a"), &size) == -ENOENT);
    CHECK(make_directory(client, in("e")) == 0 && drop(client, in("e"), false) == FAN_NAMES_ASK);
    CHECK(make_directory(client, in("e")) == FAN_NAMES_ASK);
    CHECK(drop(client, in("b"), false) == 0 && seen(in("b"), &size) == -ENOENT);
    CHECK(put(client, "none/a", 1) == FAN_NAMES_ASK);
    CHECK(compare_logs() == 7);
}

/* What another rank's program wrote, and what the home is at work on. */
static void test_when_they_ask(struct node_client *client)
{
    uint64_t object, gone;
    struct fan_changer changer = self(HOME);
    struct fan_wish theirs = wish_of(FAN_CHANGE_CREATED, in("theirs"), "");
    CHECK(fan_change_make(&changer, &theirs) == 0);
    theirs.change = (struct fan_change){
        .kind = FAN_CHANGE_PUBLISHED, .object = theirs.change.object, .attr.mode = S_IFREG};
    CHECK(fan_change_make(&changer, &theirs) == 0);
    CHECK(drop(client, in("theirs"), false) == FAN_NAMES_ASK);
    CHECK(move(client, in("theirs"), in("t"), &gone) == FAN_NAMES_ASK);
    fan_names_hold(writers[HOME]);
    CHECK(put(client, in("h"), 1) == FAN_NAMES_ASK);
    fan_names_let(writers[HOME]);
    fan_names_hold(writers[0]);
    CHECK(put(client, in("h"), 1) == FAN_NAMES_ASK);
    fan_names_let(writers[0]);
    CHECK(create(client, in("taken"), &object) == 0);
    fan_names_take_draft(writers[0], object); /* by this daemon */
    CHECK(publish(client, object, 1) == FAN_NAMES_ASK);
    CHECK(create(client, in("over"), &object) == 0);
    fan_names_take_draft(writers[HOME], object); /* or by that one */
    CHECK(publish(client, object, 1) == FAN_NAMES_ASK);
    compare_logs();
}

/* Whoever began a change is gone: it is made, and noted, rung or not. */
static void test_killed(struct fan_node *node)
{
    char name[KEYS_BYTES];
    uint64_t size;
    for (unsigned i = 0; i < 100; i++) {
        struct node_client other;
        snprintf(name, sizeof(name), "killed-%u", i);
        struct fan_wish wish = wish_of(FAN_CHANGE_MADE, in(name), "");
        wish.change.attr = (struct fan_output_attr){.mode = S_IFDIR | 0755, .nlink = 2};
        client_open(&other, node);
        CHECK(begin(&other, &wish, i % 2 == 0) != NULL);
        client_close(&other);
        fan_names_hold(writers[0]);
        CHECK(fan_elsewhere_under_way(&segments[0]) == 0 && seen(in(name), &size) != -ENOENT);
        fan_names_let(writers[0]);
    }
    CHECK(compare_logs() == 100);
}

/* While nobody follows this rank's log: what finds no room in it is not made. */
static void test_full_log(struct node_client *client)
{
    static uint64_t found[LOG_MAX][2];
    unsigned made = 2; /* a creation, and what published it */
    uint64_t gone, size;
    CHECK(put(client, in("to"), 1) == 0);
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < LOG_MAX; i++) {
        const char *from = i % 2 == 0 ? "to" : "fro";
        rc = move(client, in(from), in(i % 2 == 0 ? "fro" : "to"), &gone);
        made += rc == 0;
        CHECK(seen(in(rc != 0 ? from : i % 2 == 0 ? "fro" : "to"), &size) == 0);
        if (i % 500 == 499)
            take_log(HOME, found);
    }
    CHECK(rc == FAN_NAMES_ASK && take_log(0, found) == made);
    CHECK(put(client, in("again"), 1) == 0);
    take_log(0, found);
    take_log(HOME, found);
}

struct fighter {
    pthread_t thread;
    struct node_client client;
    unsigned number;
};

static void *fight(void *argument)
{
    struct fighter *fighter = argument;
    unsigned chance = fighter->number + 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        char one[KEYS_BYTES], two[KEYS_BYTES];
        uint64_t gone;
        chance = chance * 1103515245 + 12345;
        snprintf(one, sizeof(one), "f%u", chance >> 16 & 7);
        snprintf(two, sizeof(two), "f%u", chance >> 20 & 7);
        if (i % 3 == 0)
            put(&fighter->client, in(one), i);
        else if (i % 3 == 1)
            move(&fighter->client, in(one), in(two), &gone);
        else
            drop(&fighter->client, in(one), false);
    }
    return NULL;
}

/* All at once, while both daemons hold their segments now and then. */
static void test_together(struct fan_node *node)
{
    struct fighter fighters[THREADS];
    unsigned count = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        fighters[i].number = i;
        client_open(&fighters[i].client, node);
        CHECK(pthread_create(&fighters[i].thread, NULL, fight, &fighters[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(fighters[i].thread, NULL) == 0);
    count = compare_logs();
    CHECK(count > ROUNDS / 10);
    for (unsigned i = 0; i < THREADS; i++)
        client_close(&fighters[i].client);
}

/* What no core sends, as question and as answer. */
static void test_hostile(struct node_client *client, struct world *world)
{
    static const uint64_t kinds[] = {0x3f4b4f4f4c4e4146, 0x214b4f4f4c4e4146};
    for (unsigned i = 0; i < 4000; i++) {
        uint8_t bytes[2200];
        for (size_t j = 0; j < sizeof(bytes); j += 4) {
            uint32_t word = (uint32_t)(i * 2654435761u + j * 40503u) >> (i % 30);
            memcpy(bytes + j, &word, 4);
        }
        memcpy(bytes, &kinds[i % 2], 8);
        uint64_t number = i % 64;
        memcpy(bytes + 8, &number, 8);
        CHECK(fan_node_post(world->nodes[0], HOME, bytes, 100 + i * 7 % 2000) == 0);
        CHECK(fan_node_post(world->nodes[HOME], 0, bytes, 100 + i * 7 % 2000) == 0);
    }
    CHECK(put(client, in("after"), 1) == 0);
    compare_logs();
}

/* Where the home is lost, whatever it was asked comes to an end. */
static void test_lost(struct node_client *client, struct world *world)
{
    struct fan_wish wish = wish_of(FAN_CHANGE_REMOVED, in("after"), "");
    struct fan_question *question = begin(client, &wish, true);
    CHECK(question != NULL);
    fan_node_lose(world->nodes[0], HOME);
    EVENTUALLY(state_of(question) == FAN_QUESTION_ANSWERED);
    __atomic_store_n(&question->state, FAN_QUESTION_FREE, __ATOMIC_SEQ_CST);
    EVENTUALLY(fan_elsewhere_under_way(&segments[0]) == 0);
    CHECK(put(client, in("later"), 1) == FAN_NAMES_ASK);
}

static uint32_t dead_thread(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    CHECK(waitpid(pid, NULL, 0) == pid);
    return (uint32_t)pid;
}

/* A client is killed with the segment in its hands while a change is under way: that is noted, also
 * where the daemon has ended the segment for it; then none begins any more. */
static void test_segment_ended(struct node_client *client, bool first)
{
    static uint64_t here[LOG_MAX][2];
    struct fan_names_header *header = segments[0].header;
    uint64_t size;
    CHECK(put(client, in("a"), 1) == 0);
    struct fan_wish wish = wish_of(FAN_CHANGE_MOVED, in("a"), in("b"));
    struct fan_question *question = begin(client, &wish, false);
    CHECK(question != NULL && header->changer == 0);
    __atomic_store_n(&header->changer, dead_thread(), __ATOMIC_SEQ_CST);
    if (first) { /* as csrc/names/follow.c does it */
        __atomic_store_n(&header->closed, FAN_NAMES_NEVER, __ATOMIC_SEQ_CST);
        __atomic_fetch_or(&header->log_end, FAN_NAMES_LOG_ENDED, __ATOMIC_SEQ_CST);
    }
    ring(client);
    EVENTUALLY(state_of(question) == FAN_QUESTION_ANSWERED);
    CHECK(question->rc == 0 && seen(in("b"), &size) == 0 && size == 1);
    __atomic_store_n(&question->state, FAN_QUESTION_FREE, __ATOMIC_SEQ_CST);
    CHECK(take_log(0, here) == 3 && here[2][0] == FAN_CHANGE_MOVED);
    CHECK(put(client, in("after"), 1) == FAN_NAMES_ASK);
}

static void with_world(void (*test)(struct node_client *, struct world *))
{
    struct world world;
    struct node_client client;
    const struct world_shape shape = {RANKS, 1, WORLD_TINY_BYTES, LONG_MS, FAN_POLICY_LRU};
    world_open(&world, shape, 0);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        open_segment(rank);
    client_open(&client, world.nodes[0]);
    test(&client, &world);
    client_close(&client);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        fan_names_close(writers[rank]);
    world_close(&world);
}

static void test_alive(struct node_client *client, struct world *world)
{
    test_what_they_do(client);
    test_when_they_ask(client);
    test_killed(world->nodes[0]);
    test_full_log(client);
    test_together(world->nodes[0]);
    test_hostile(client, world);
    test_lost(client, world);
}

static void test_ended_then(struct node_client *client, struct world *world)
{
    (void)world;
    test_segment_ended(client, false);
}

static void test_ended_before(struct node_client *client, struct world *world)
{
    (void)world;
    test_segment_ended(client, true);
}

int main(void)
{
    choose_directory();
    with_world(test_alive);
    with_world(test_ended_then);
    with_world(test_ended_before);
    printf("test_elsewhere: no fault\n");
    return 0;
}
