/*
 * The node daemon's side of outputs in as few lines as the shim needs: names in one table, no
 * homes, no drafts; whatever was settled is there. It notes who asked what, and lies when it is
 * told to. For test_outputs.c.
 */
#ifndef FAN_TESTS_FAKE_OUTPUTS_H
#define FAN_TESTS_FAKE_OUTPUTS_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../../csrc/format/output_format.h"
#include "../../tools/fuzz/jobdir.h"
#include "check.h"

enum { CALLS_MAX = 65536, NAMES_MAX = 4096, NAMED_OBJECTS = 8 };

enum output_lie {
    OUTPUTS_HONEST,
    OUTPUTS_MAGIC,      /* another protocol's answer */
    OUTPUTS_ERRNO,      /* no errno */
    OUTPUTS_LONG,       /* more text than a path has room for */
    OUTPUTS_HALF,       /* hangs up in the middle */
    OUTPUTS_SILENT,     /* hangs up at once */
    OUTPUTS_WHERE,      /* an answer to another question */
    OUTPUTS_NAME,       /* a name in a listing that leads out of it */
    OUTPUTS_NAME_BYTES, /* a name that is longer than the listing */
    OUTPUTS_GONE        /* files that are not there */
};

struct asked {
    uint32_t op;
    pid_t pid;
    uint32_t object_count;
    uint64_t objects[NAMED_OBJECTS];
};

/* Shared by the daemon and its clients. */
struct outputs_control {
    enum output_lie lie;
    bool open_yet;  /* SETTLE finishes nothing */
    bool in_pieces; /* answers come byte by byte */
    atomic_uint count;
    struct asked calls[CALLS_MAX];
};

struct fake_name {
    char path[256];
    uint64_t object;
    bool settled;
};

struct fake_outputs {
    struct outputs_control *control;
    const char *directory;
    int listener;
    unsigned count;
    struct fake_name names[NAMES_MAX];
};

struct fake_request {
    struct fan_output_request head;
    char path[FAN_OUTPUT_PATH_MAX];
    char other[FAN_OUTPUT_PATH_MAX];
    uint64_t objects[FAN_OUTPUT_OBJECTS_MAX];
    pid_t pid;
};

struct fake_reply {
    struct fan_output_answer head;
    char text[1 << 18];
};

static void fake_reply_text(struct fake_reply *reply, uint32_t where, const char *text)
{
    reply->head.where = where;
    reply->head.text_bytes = strlen(text);
    memcpy(reply->text, text, reply->head.text_bytes);
}

static bool fake_read(int link, void *to, size_t bytes)
{
    return bytes == 0 || recv(link, to, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

static bool fake_read_request(int link, struct fake_request *request)
{
    struct ucred who;
    socklen_t bytes = sizeof(who);
    memset(request, 0, sizeof(*request));
    if (!fake_read(link, &request->head, sizeof(request->head)))
        return false;
    CHECK(request->head.magic == FAN_OUTPUT_MAGIC);
    CHECK(request->head.path_bytes < FAN_OUTPUT_PATH_MAX);
    CHECK(request->head.other_bytes < FAN_OUTPUT_PATH_MAX);
    CHECK(request->head.object_count <= FAN_OUTPUT_OBJECTS_MAX);
    CHECK(getsockopt(link, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0);
    request->pid = who.pid;
    return fake_read(link, request->path, request->head.path_bytes) &&
           fake_read(link, request->other, request->head.other_bytes) &&
           fake_read(link, request->objects, request->head.object_count * sizeof(uint64_t));
}

static void fake_note(struct fake_outputs *fake, const struct fake_request *request)
{
    unsigned at = atomic_load(&fake->control->count);
    CHECK(at < CALLS_MAX);
    struct asked *asked = &fake->control->calls[at];
    asked->op = request->head.op;
    asked->pid = request->pid;
    asked->object_count = request->head.object_count;
    memcpy(asked->objects, request->objects, sizeof(asked->objects));
    atomic_store(&fake->control->count, at + 1);
}

static struct fake_name *fake_name_of(struct fake_outputs *fake, const char *path)
{
    for (unsigned i = 0; i < fake->count; i++) {
        if (strcmp(fake->names[i].path, path) == 0)
            return &fake->names[i];
    }
    return NULL;
}

static void fake_object_path(const struct fake_outputs *fake, uint64_t object, char path[4096])
{
    const char *where = fake->control->lie == OUTPUTS_GONE ? "no/where" : "objects/0";
    snprintf(path, 4096, "%s/%s/%llx", fake->directory, where, (unsigned long long)object);
}

/* Names that end so lead out of the outputs. */
static bool fake_leads_out(const char *path, struct fake_reply *reply)
{
    static const char *const ends[][2] = {{"to-input", JOBDIR_PREFIX "/dir1/file8"},
                                          {"to-itself", JOBDIR_PREFIX "/dir1/to-itself"},
                                          {"to-output", JOBDIR_PREFIX "/dir1/made"},
                                          {"to-outside", "/dev/null"}};
    for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        size_t length = strlen(path), bytes = strlen(ends[i][0]);
        if (length >= bytes && strcmp(path + length - bytes, ends[i][0]) == 0) {
            fake_reply_text(reply, FAN_OUTPUT_ELSEWHERE, ends[i][1]);
            return true;
        }
    }
    return false;
}

static void fake_lookup(struct fake_outputs *fake, const char *path, struct fake_reply *reply)
{
    const struct fake_name *name = fake_name_of(fake, path);
    char file[4096];
    struct stat st;
    if (fake_leads_out(path, reply))
        return;
    reply->head.error = ENOENT;
    if (name == NULL || !name->settled)
        return;
    fake_object_path(fake, name->object, file);
    CHECK(stat(file, &st) == 0);
    reply->head.error = 0;
    reply->head.attr = (struct fan_output_attr){.ino = UINT64_C(1) << 62 | name->object,
                                                .object = name->object,
                                                .size = (uint64_t)st.st_size,
                                                .mode = st.st_mode,
                                                .nlink = 1};
    fake_reply_text(reply, FAN_OUTPUT_HERE, path);
}

static void fake_open(struct fake_outputs *fake, const struct fake_request *request,
                      struct fake_reply *reply)
{
    struct fake_name *name = fake_name_of(fake, request->path);
    bool create = name == NULL && (request->head.flags & O_CREAT);
    char file[4096];
    if (fake_leads_out(request->path, reply))
        return;
    if (name == NULL && !create) {
        reply->head.error = ENOENT;
        return;
    }
    if (create) {
        CHECK(fake->count < NAMES_MAX);
        name = &fake->names[fake->count++];
        memcpy(name->path, request->path, sizeof(name->path));
        name->object = (UINT64_C(1) << 40) + fake->count;
    }
    reply->head.attr.object = name->object;
    reply->head.attr.ino = UINT64_C(1) << 62 | name->object;
    reply->head.attr.mode = S_IFREG | request->head.mode;
    fake_object_path(fake, name->object, file);
    fake_reply_text(reply, create ? FAN_OUTPUT_CREATE : FAN_OUTPUT_EXISTING, file);
}

static void fake_settle(struct fake_outputs *fake, const struct fake_request *request,
                        struct fake_reply *reply)
{
    reply->head.where = fake->control->open_yet ? FAN_OUTPUT_OPEN_YET : FAN_OUTPUT_SETTLED;
    for (unsigned i = 0; i < fake->count; i++) {
        for (unsigned j = 0; j < request->head.object_count; j++) {
            if (fake->names[i].object == request->objects[j])
                fake->names[i].settled = true;
        }
    }
}

static void fake_put_name(struct fake_reply *reply, const char *name, uint64_t object,
                          enum output_lie lie)
{
    struct fan_output_name entry = {.ino = UINT64_C(1) << 62 | object, .type = DT_REG};
    size_t bytes = strlen(name);
    entry.name_bytes = lie == OUTPUTS_NAME_BYTES ? 200 : (uint32_t)bytes;
    CHECK(reply->head.text_bytes + sizeof(entry) + 264 < sizeof(reply->text));
    char *to = reply->text + reply->head.text_bytes;
    memset(to + sizeof(entry), 0, (bytes + 7) / 8 * 8);
    memcpy(to, &entry, sizeof(entry));
    memcpy(to + sizeof(entry), name, bytes);
    if (lie == OUTPUTS_NAME)
        to[sizeof(entry)] = '/';
    reply->head.text_bytes += sizeof(entry) + (bytes + 7) / 8 * 8;
}

static void fake_list(struct fake_outputs *fake, const char *path, struct fake_reply *reply)
{
    size_t bytes = strlen(path);
    for (unsigned i = 0; i < fake->count; i++) {
        const struct fake_name *name = &fake->names[i];
        if (strncmp(name->path, path, bytes) == 0 && name->path[bytes] == '/' && name->settled)
            fake_put_name(reply, name->path + bytes + 1, name->object, fake->control->lie);
    }
}

static void fake_think(struct fake_outputs *fake, const struct fake_request *request,
                       struct fake_reply *reply)
{
    reply->head = (struct fan_output_answer){.magic = FAN_OUTPUT_MAGIC};
    switch (request->head.op) {
    case FAN_OUTPUT_LOOKUP:
        return fake_lookup(fake, request->path, reply);
    case FAN_OUTPUT_OPEN:
        return fake_open(fake, request, reply);
    case FAN_OUTPUT_LIST:
        return fake_list(fake, request->path, reply);
    case FAN_OUTPUT_SETTLE:
        return fake_settle(fake, request, reply);
    default:
        return;
    }
}

static void fake_say(const struct fake_outputs *fake, int link, struct fake_reply *reply)
{
    enum output_lie lie = fake->control->lie;
    size_t bytes = sizeof(reply->head) + reply->head.text_bytes;
    if (lie == OUTPUTS_MAGIC)
        reply->head.magic++;
    if (lie == OUTPUTS_ERRNO)
        reply->head.error = 0xffffffff;
    if (lie == OUTPUTS_LONG)
        reply->head.text_bytes = UINT64_C(1) << 40;
    if (lie == OUTPUTS_WHERE)
        reply->head.where = 77;
    if (lie == OUTPUTS_HALF)
        bytes /= 2;
    size_t step = fake->control->in_pieces ? 1 : bytes;
    for (size_t at = 0; lie != OUTPUTS_SILENT && at < bytes; at += step) {
        if (send(link, (char *)reply + at, step, MSG_NOSIGNAL) != (ssize_t)step)
            return;
    }
}

/* Listens in `directory`, whose path may be too long for a socket address. */
static int outputs_listen(const char *directory)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "outputs"};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(chdir(directory) == 0);
    unlink("outputs");
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(listen(listener, 64) == 0);
    CHECK(chdir("..") == 0);
    return listener;
}

/* The daemon's process: serves until it is killed, or its parent ends. */
static void outputs_run(struct outputs_control *control, const char *directory, int listener)
{
    static struct fake_outputs fake;
    static struct fake_request request;
    static struct fake_reply reply;
    fake.control = control;
    fake.directory = directory;
    fake.listener = listener;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        int link = accept4(fake.listener, NULL, NULL, SOCK_CLOEXEC);
        CHECK(link >= 0);
        if (fake_read_request(link, &request)) {
            fake_think(&fake, &request, &reply);
            fake_note(&fake, &request);
            fake_say(&fake, link, &reply);
        }
        close(link);
    }
}

#endif
