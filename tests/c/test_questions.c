/* Looks at names of outputs through two nodes of one process: the home rank answers from its
 * segment. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../csrc/common/names.h"
#include "../../csrc/names/writer.h"
#include "check.h"
#include "node_client.h"
#include "node_world.h"

enum { MOST = 16 << 20, HOME = 1, LONG_MS = 30000, ROUNDS = 2000 };

static struct fan_names_writer *writer;

static void make_names(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && fan_names_open(fd, HOME, 2, MOST, &writer) == 0);
}

static void put(const char *path, unsigned mode, uint64_t size, bool ask)
{
    struct fan_output_attr attr = {.ino = 7, .object = 9, .size = size, .mode = mode, .nlink = 1};
    const char *target = S_ISLNK(mode) ? "to" : "";
    CHECK(fan_names_put(writer, 0, path, (uint32_t)strlen(path), mode != 0 ? &attr : NULL, target,
                        (uint32_t)strlen(target), ask, 1) == 0);
}

static void ring(struct node_client *client)
{
    __atomic_store_n(&client->session->wanted, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_or(&client->header->wanted_sessions[client->number / 64],
                      UINT64_C(1) << client->number % 64, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&client->header->doorbell, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &client->header->doorbell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static uint32_t state_of(struct fan_question *question)
{
    return __atomic_load_n(&question->state, __ATOMIC_SEQ_CST);
}

static struct fan_question *ask(struct node_client *client, uint32_t home, const char *path)
{
    struct fan_question *question = &client->session->questions[1];
    CHECK(state_of(question) == FAN_QUESTION_FREE);
    question->home = home;
    question->change.mount = 0;
    question->change.path_bytes = (uint32_t)strlen(path);
    question->base_bytes = 0;
    question->how = FAN_QUESTION_FOLLOW;
    memcpy(question->text, path, strlen(path));
    __atomic_store_n(&question->state, FAN_QUESTION_ASKED, __ATOMIC_SEQ_CST);
    ring(client);
    return question;
}

static int told(struct node_client *client, uint32_t home, const char *path,
                struct fan_output_attr *attr)
{
    struct fan_question *question = ask(client, home, path);
    EVENTUALLY(state_of(question) == FAN_QUESTION_ANSWERED);
    *attr = question->change.attr;
    int rc = question->rc;
    __atomic_store_n(&question->state, FAN_QUESTION_FREE, __ATOMIC_SEQ_CST);
    return rc;
}

static void check_answers(struct node_client *client)
{
    struct fan_output_attr attr;
    CHECK(told(client, HOME, "d/file", &attr) == 0 && attr.size == 5 && attr.object == 9);
    CHECK(told(client, HOME, "d/none", &attr) == -ENOENT);
    CHECK(told(client, HOME, "d/file/below", &attr) == -ENOTDIR);
    CHECK(told(client, HOME, "d/link", &attr) == FAN_NAMES_ASK);
    CHECK(told(client, HOME, "d/draft", &attr) == FAN_NAMES_ASK);
    CHECK(told(client, HOME, "elsewhere/file", &attr) == FAN_NAMES_ASK);
    CHECK(told(client, 0, "d/file", &attr) == FAN_NAMES_ASK); /* its own rank is not asked */
    CHECK(told(client, 77, "d/file", &attr) == FAN_NAMES_ASK);
}

/* What the home shows is what a look that begins afterwards finds. */
static void check_changes(struct node_client *client)
{
    struct fan_output_attr attr;
    for (uint64_t size = 1; size <= ROUNDS; size++) {
        put("d/file", S_IFREG | 0644, size, false);
        CHECK(told(client, HOME, "d/file", &attr) == 0 && attr.size == size);
    }
}

/* A question that nobody waits for, and one whose session ends. */
static void check_dropped(struct node_client *client, struct fan_node *node)
{
    struct fan_question *question = ask(client, HOME, "d/file");
    uint32_t asked = FAN_QUESTION_ASKED;
    if (__atomic_compare_exchange_n(&question->state, &asked, FAN_QUESTION_DROPPED, false,
                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        EVENTUALLY(state_of(question) == FAN_QUESTION_FREE);
    else
        __atomic_store_n(&question->state, FAN_QUESTION_FREE, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 200; i++) {
        struct node_client other;
        client_open(&other, node);
        ask(&other, HOME, "d/file");
        client_close(&other);
    }
    check_answers(client);
}

/* What a client may not ask, and what no core sends. */
static void check_hostile(struct node_client *client, struct world *world)
{
    struct fan_output_attr attr;
    struct fan_question *question = &client->session->questions[0];
    for (uint32_t bytes = FAN_QUESTION_TEXT_BYTES + 1; bytes != 0; bytes <<= 1) {
        question->home = HOME;
        question->change.path_bytes = bytes;
        question->base_bytes = UINT32_MAX;
        __atomic_store_n(&question->state, FAN_QUESTION_ASKED, __ATOMIC_SEQ_CST);
        ring(client);
        EVENTUALLY(state_of(question) == FAN_QUESTION_ANSWERED);
        CHECK(question->rc == FAN_NAMES_ASK);
        __atomic_store_n(&question->state, FAN_QUESTION_FREE, __ATOMIC_SEQ_CST);
    }
    static const uint64_t kinds[] = {0x3f4b4f4f4c4e4146, 0x214b4f4f4c4e4146};
    for (unsigned i = 0; i < 400; i++) {
        uint8_t bytes[1100];
        memset(bytes, (int)(i * 37), sizeof(bytes));
        memcpy(bytes, &kinds[i % 2], 8);
        CHECK(fan_node_post(world->nodes[0], HOME, bytes, 100 + i * 3 % 900) == 0);
        CHECK(fan_node_post(world->nodes[HOME], 0, bytes, 100 + i * 3 % 900) == 0);
    }
    CHECK(told(client, HOME, "d/none", &attr) == -ENOENT);
}

int main(void)
{
    struct world world;
    struct node_client client;
    struct fan_output_attr attr;
    char path[4096];
    const struct world_shape shape = {2, 1, WORLD_TINY_BYTES, LONG_MS, FAN_POLICY_LRU};
    world_open(&world, shape, 0);
    client_open(&client, world.nodes[0]);
    world_segment_path(HOME, path);
    strcpy(strrchr(path, '/') + 1, "names");
    unlink(path);                                                 /* of a run that failed */
    CHECK(told(&client, HOME, "d/file", &attr) == FAN_NAMES_ASK); /* there is no segment yet */
    make_names(path);
    CHECK(fan_names_cover(writer, 0, "d", 1) == 0);
    put("d/file", S_IFREG | 0644, 5, false);
    put("d/link", S_IFLNK | 0777, 2, false);
    put("d/draft", 0, 0, true);
    check_answers(&client);
    check_changes(&client);
    put("d/file", S_IFREG | 0644, 5, false);
    check_dropped(&client, world.nodes[0]);
    check_hostile(&client, &world);
    fan_names_close(writer);
    CHECK(told(&client, HOME, "d/none", &attr) == FAN_NAMES_ASK); /* nobody keeps it any more */
    CHECK(world_stats(&world, HOME).looks > ROUNDS);
    fan_node_lose(world.nodes[0], HOME);
    CHECK(told(&client, HOME, "d/none", &attr) == FAN_NAMES_ASK);
    client_close(&client);
    unlink(path);
    world_close(&world);
    printf("test_questions: no fault\n");
    return 0;
}
