#include "looks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inner.h"
#include "machine/shared.h"

/* How a message begins; those of fanstore/peers/pieces.py begin with a small byte. */
#define LOOK UINT64_C(0x3f4b4f4f4c4e4146)
#define LOOKED UINT64_C(0x214b4f4f4c4e4146)

/* A look and its answer, which has no path. question: among all of the sessions. */
struct look {
    uint64_t kind;
    uint64_t number;
    uint32_t question;
    int32_t rc;
    uint32_t mount;
    uint32_t path_bytes;
    uint32_t base_bytes;
    uint32_t follow;
    struct fan_output_attr attr;
    char path[FAN_QUESTION_PATH_MAX];
};

enum { HEAD_BYTES = offsetof(struct look, path) };

int fan_looks_init(struct fan_looks *looks, const char *job_segment, uint32_t session_count)
{
    const char *slash = strrchr(job_segment, '/');
    int directory = slash != NULL ? (int)(slash - job_segment) + 1 : 0;
    *looks = (struct fan_looks){0};
    looks->asked = calloc((size_t)session_count * FAN_SESSION_QUESTIONS, sizeof(*looks->asked));
    if (looks->asked != NULL && asprintf(&looks->path, "%.*snames", directory, job_segment) >= 0)
        return 0;
    looks->path = NULL;
    fan_looks_fini(looks);
    return -ENOMEM;
}

void fan_looks_fini(struct fan_looks *looks)
{
    if (looks->names.header != NULL)
        munmap(looks->names.header, looks->names.bytes);
    free(looks->path);
    free(looks->asked);
    *looks = (struct fan_looks){0};
}

static struct fan_question *question_at(struct fan_node *node, uint32_t number)
{
    struct fan_session *session = &node->segment.sessions[number / FAN_SESSION_QUESTIONS];
    return &session->questions[number % FAN_SESSION_QUESTIONS];
}

/* ---- asking ---- */

static void answer(struct fan_node *node, uint32_t number, int rc,
                   const struct fan_output_attr *attr)
{
    struct fan_question *question = question_at(node, number);
    node->looks.asked[number] = 0;
    if (attr != NULL)
        question->attr = *attr;
    fan_put32((uint32_t *)&question->rc, (uint32_t)rc);
    if (fan_total_change(&question->state, FAN_QUESTION_ASKED, FAN_QUESTION_ANSWERED)) {
        if (fan_total_load(&question->waiters) != 0)
            fan_futex_wake(&question->state);
    } else {
        fan_total_change(&question->state, FAN_QUESTION_DROPPED, FAN_QUESTION_FREE);
    }
}

static void start(struct fan_node *node, uint32_t number)
{
    const struct fan_question *question = question_at(node, number);
    struct look look = {.kind = LOOK,
                        .number = ++node->looks.last,
                        .question = number,
                        .mount = question->mount,
                        .path_bytes = question->path_bytes,
                        .base_bytes = question->base_bytes,
                        .follow = question->follow};
    int rc = look.path_bytes <= sizeof(look.path) ? 0 : -EINVAL;
    if (rc == 0) {
        memcpy(look.path, question->path, look.path_bytes);
        rc = fan_node_post(node, question->home, &look, HEAD_BYTES + look.path_bytes);
    }
    node->looks.asked[number] = look.number;
    if (rc != 0)
        answer(node, number, FAN_NAMES_ASK, NULL);
}

bool fan_looks_start(struct fan_node *node, uint32_t session)
{
    bool any = false;
    for (uint32_t i = 0; i < FAN_SESSION_QUESTIONS; i++) {
        uint32_t number = session * FAN_SESSION_QUESTIONS + i;
        uint32_t *state = &question_at(node, number)->state;
        if (node->looks.asked[number] != 0)
            continue;
        fan_total_change(state, FAN_QUESTION_DROPPED, FAN_QUESTION_FREE);
        if (fan_total_load(state) != FAN_QUESTION_ASKED)
            continue;
        start(node, number);
        any = true;
    }
    return any;
}

void fan_looks_forget(struct fan_node *node, uint32_t session)
{
    for (uint32_t i = 0; i < FAN_SESSION_QUESTIONS; i++) {
        uint32_t number = session * FAN_SESSION_QUESTIONS + i;
        node->looks.asked[number] = 0;
        fan_total_store(&question_at(node, number)->state, FAN_QUESTION_FREE);
    }
}

/* ---- answering ---- */

static bool map_names(struct fan_looks *looks)
{
    struct stat st;
    if (looks->names.header != NULL)
        return true;
    int fd = open(looks->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool sane = fstat(fd, &st) == 0 && st.st_size >= FAN_NAMES_HEADER_BYTES;
    void *at = sane ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (at == MAP_FAILED)
        return false;
    bool ours = fan_names_attach(&looks->names, at, (uint64_t)st.st_size) == 0;
    if (!ours)
        munmap(at, (size_t)st.st_size);
    return ours;
}

/* A link's target is not sent: its name is asked for. */
static int look_here(struct fan_looks *looks, const struct look *look, struct fan_output_attr *attr)
{
    char target[FAN_OUTPUT_PATH_MAX];
    const struct fan_names_path path = {look->mount, look->path, look->path_bytes,
                                        look->base_bytes};
    if (look->base_bytes > look->path_bytes || !map_names(looks))
        return FAN_NAMES_ASK;
    int rc = fan_names_look(&looks->names, &path, look->follow != 0, attr, target, sizeof(target));
    return rc == 0 && S_ISLNK(attr->mode) ? FAN_NAMES_ASK : rc;
}

/* Where it cannot be sent, whoever asked waits no longer than for a lost rank. */
static void answer_look(struct fan_node *node, uint32_t rank, const struct look *look)
{
    struct look looked = {.kind = LOOKED, .number = look->number, .question = look->question};
    looked.rc = look_here(&node->looks, look, &looked.attr);
    fan_add64(&node->stats.looks, 1);
    fan_node_post(node, rank, &looked, HEAD_BYTES);
}

bool fan_looks_take(struct fan_node *node, const struct fan_message *message)
{
    struct look look = {0};
    if (message->bytes < HEAD_BYTES || message->bytes > sizeof(look))
        return false;
    memcpy(&look, message->data, message->bytes);
    if (look.kind != LOOK && look.kind != LOOKED)
        return false;
    uint32_t questions = node->segment.session_count * FAN_SESSION_QUESTIONS;
    if (look.kind == LOOK && look.path_bytes == message->bytes - HEAD_BYTES)
        answer_look(node, message->rank, &look);
    else if (look.kind == LOOKED && look.question < questions && look.number != 0 &&
             node->looks.asked[look.question] == look.number)
        answer(node, look.question, look.rc, &look.attr);
    return true;
}
