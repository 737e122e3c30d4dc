/*
 * dlopen. The real one looks at its caller, for $ORIGIN and RPATH. So this library jumps to it, and
 * it finds the return address of the program.
 */
#include "load.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#include "../../client/code/code_tree.h"
#include "../../common/sys.h"
#include "../cancel.h"
#include "../process/environment.h"
#include "../real.h"
#include "../syscall/raw.h"

/* A search for the file that contains the caller. */
struct search {
    uintptr_t address;
    char *path; /* has room for PATH_MAX bytes */
    bool found;
};

/* Returns 1, which ends the search, if this file contains the caller. (dladdr would go through all
 * of its symbols.) */
static int look_at(struct dl_phdr_info *info, size_t bytes, void *argument)
{
    struct search *search = argument;
    bool here = false;
    (void)bytes;
    for (unsigned i = 0; !here && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        here = segment->p_type == PT_LOAD &&
               search->address - (info->dlpi_addr + segment->p_vaddr) < segment->p_memsz;
    }
    size_t length = here ? strlen(info->dlpi_name) + 1 : 0;
    if (length == 0 || length > PATH_MAX)
        return here;
    memcpy(search->path, info->dlpi_name, length);
    search->found = true;
    return 1;
}

/* Writes the path of the library or program that contains address `caller`, as the dynamic linker
 * spells it. Returns false if there is none. */
static bool caller_path(void *caller, char path[PATH_MAX])
{
    struct search search = {.address = (uintptr_t)caller, .path = path};
    dl_iterate_phdr(look_at, &search);
    if (!search.found || path[0] != '\0')
        return search.found;
    return fan_sys_readlink(AT_FDCWD, "/proc/self/exe", path, PATH_MAX) > 0;
}

/* The program's LD_LIBRARY_PATH at its start if it may name mounts, and whether the linker got real
 * directories for those. */
static const char *library_path;
static bool library_path_replaced;

/* How the trampoline continues: it jumps to `call` with `path`; if `call` is NULL, it returns
 * `path`. */
struct onward {
    void *call;
    const void *path;
};

struct onward fan_load_dlopen(const char *path, int mode, void *caller);

#if defined(__x86_64__)
/* Calls the C function with rdi, rsi and rdx unchanged, and an aligned stack. */
__asm__(".text\n"
        ".p2align 4\n"
        ".globl dlopen\n"
        ".type dlopen, @function\n"
        "dlopen:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    movq 24(%rsp), %rdx\n" /* the return address */
        "    call fan_load_dlopen\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    testq %rax, %rax\n"
        "    jz 1f\n"
        "    movq %rdx, %rdi\n"
        "    jmp *%rax\n"
        "1:  movq %rdx, %rax\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size dlopen, . - dlopen\n");
#elif defined(__aarch64__)
/* Like the code above for x86_64: leaves x0 and x1 unchanged; x30 is the return address. */
__asm__(".text\n"
        ".p2align 4\n"
        ".globl dlopen\n"
        ".type dlopen, %function\n"
        "dlopen:\n"
        "    .cfi_startproc\n"
        "    hint #34\n" /* bti c: may be called through a pointer */
        "    stp x29, x30, [sp, #-32]!\n"
        "    .cfi_def_cfa_offset 32\n"
        "    .cfi_offset x29, -32\n"
        "    .cfi_offset x30, -24\n"
        "    str x1, [sp, #16]\n"
        "    mov x29, sp\n"
        "    mov x2, x30\n"
        "    bl fan_load_dlopen\n"
        "    mov x16, x0\n"
        "    mov x0, x1\n"
        "    ldr x1, [sp, #16]\n"
        "    ldp x29, x30, [sp], #32\n"
        "    .cfi_def_cfa_offset 0\n"
        "    .cfi_restore x29\n"
        "    .cfi_restore x30\n"
        "    cbz x16, 1f\n"
        "    br x16\n"
        "1:  ret\n"
        "    .cfi_endproc\n"
        ".size dlopen, . - dlopen\n");
#endif

/* The state of one dlopen. root: the item to load, or -1. */
struct loading {
    struct fan_code_tree *tree;
    const char *given;
    const char *passed;
    int root;
};

/* Adds the caller as an item and returns it; -1 if the caller has nothing to do with a mount. */
static int add_caller(struct fan_code_tree *tree, void *caller)
{
    struct fan_code_room *room = fan_code_room(tree);
    char *place = room->own, *shown = room->relpath;
    const char *rest;
    if (!caller_path(caller, place))
        return -1;
    bool ours = fan_code_match(place, &rest) != NULL;
    if (!ours && library_path == NULL)
        return -1;
    if (fan_code_shown(place, shown, sizeof(room->relpath)) < 0)
        return -1;
    return fan_code_add_known(tree, shown, ours ? place : NULL, -1);
}

/* Prepares the load of a name without a slash: the linker finds the library itself once the
 * library's file is made real. */
static void prepare_name(struct loading *loading, void *caller)
{
    int number = add_caller(loading->tree, caller);
    if (number < 0)
        return;
    loading->root = fan_code_find(loading->tree, number, loading->given);
    if (loading->root < 0)
        return;
    const struct fan_code_item *item = fan_code_item(loading->tree, (unsigned)loading->root);
    if (item->foreign) {
        void *loaded = REAL(dlopen)(loading->given, RTLD_LAZY | RTLD_NOLOAD);
        if (loaded != NULL)
            dlclose(loaded);
        else
            loading->passed = fan_code_keep(item->place);
    }
    fan_code_close_over(loading->tree, loading->root);
}

/* Prepares the load of a path outside, which may need libraries of a mount. */
static void prepare_outside(struct loading *loading)
{
    const char *outside = fan_code_outside(loading->tree);
    if (outside != loading->given)
        loading->passed = fan_code_keep(outside);
    loading->root = fan_code_add_known(loading->tree, outside, NULL, -1);
    if (loading->root >= 0)
        fan_code_close_over(loading->tree, loading->root);
}

/* Replaces $ORIGIN in a path by the caller's directory, for this library and for the linker.
 * Returns the path, or NULL if there is none. */
static const char *expand_origin(const struct loading *loading, void *caller)
{
    const char *path = loading->given;
    struct fan_code_room *room = fan_code_room(loading->tree);
    size_t skip = strncmp(path, "$ORIGIN/", 8) == 0     ? 7
                  : strncmp(path, "${ORIGIN}/", 10) == 0 ? 9
                                                         : 0;
    if (skip == 0 || !caller_path(caller, room->own) ||
        fan_code_shown(room->own, room->above, sizeof(room->above)) < 0)
        return NULL;
    size_t head = (size_t)(strrchr(room->above, '/') - room->above);
    if (head + strlen(path + skip) >= sizeof(room->above))
        return NULL;
    strcpy(room->above + head, path + skip);
    return room->above;
}

/* Sets the path for a library that the mount no longer has: its real file if that is loaded
 * already, otherwise a path on which the linker fails. */
static void refuse(struct loading *loading, int error)
{
    const char *place = fan_code_refused(loading->tree);
    void *loaded = place[0] != '\0' ? REAL(dlopen)(place, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (loaded != NULL)
        dlclose(loaded);
    loading->passed = loaded != NULL ? fan_code_keep(place)
                                     : fan_load_refuse(loading->given, error);
}

static void prepare_path(struct loading *loading, void *caller)
{
    const char *expanded = loading->given[0] == '$' ? expand_origin(loading, caller) : NULL;
    int number = fan_code_add(loading->tree, expanded != NULL ? expanded : loading->given);
    if (number == -EXDEV) {
        if (expanded == NULL)
            prepare_outside(loading);
        return;
    }
    if (number < 0) {
        refuse(loading, -number);
        return;
    }
    loading->root = number;
    fan_code_close_over(loading->tree, number);
    const struct fan_code_item *item = fan_code_item(loading->tree, (unsigned)number);
    if (expanded == NULL || item->foreign)
        loading->passed = fan_code_keep(item->place);
}

static bool is_foreign(const struct loading *loading, unsigned number)
{
    return fan_code_item(loading->tree, number)->foreign && (int)number != loading->root;
}

static bool needs_foreign(const struct loading *loading)
{
    for (unsigned i = 0; loading->root >= 0 && i < fan_code_count(loading->tree); i++) {
        if (is_foreign(loading, i))
            return true;
    }
    return false;
}

/* Loads the libraries that the linker would not find, until no more can be loaded. The linker finds
 * a loaded library by its soname. */
static void load_foreign(const struct loading *loading, void *handles[FAN_CODE_ITEMS_MAX])
{
    unsigned count = fan_code_count(loading->tree);
    bool more = true;
    for (unsigned turn = 0; more && turn < count; turn++) {
        more = false;
        for (unsigned i = count; i-- > 0;) {
            if (handles[i] != NULL || !is_foreign(loading, i))
                continue;
            handles[i] = REAL(dlopen)(fan_code_item(loading->tree, i)->place, RTLD_LAZY);
            more = more || handles[i] != NULL;
        }
    }
}

static __attribute__((noinline)) void *load_with_foreign(const struct loading *loading, int mode)
{
    void *handles[FAN_CODE_ITEMS_MAX] = {NULL};
    load_foreign(loading, handles);
    void *answer = REAL(dlopen)(loading->passed, mode);
    for (unsigned i = 0; i < FAN_CODE_ITEMS_MAX; i++) {
        if (handles[i] != NULL && answer != NULL)
            dlclose(handles[i]);
    }
    return answer;
}

/* Finds the path to pass instead. Returns true if the library was loaded already, with *answer as
 * its handle. */
static __attribute__((noinline)) bool prepare(struct loading *loading, int mode, void *caller,
                                              void **answer)
{
    int saved = errno;
    bool done = false;
    loading->tree = fan_code_begin(library_path, library_path_replaced);
    if (loading->tree == NULL)
        return false;
    if (strchr(loading->given, '/') != NULL)
        prepare_path(loading, caller);
    else
        prepare_name(loading, caller);
    if (loading->passed == NULL)
        loading->passed = loading->given;
    fan_load_note(loading->given, loading->passed);
    if (needs_foreign(loading)) {
        *answer = load_with_foreign(loading, mode);
        done = true;
    }
    fan_code_end(loading->tree);
    errno = saved;
    return done;
}

/* Returns whether this library itself is the caller. Libraries that it loads are not examined:
 * codecs are among them, and examining needs them. */
static bool is_ours(void *caller)
{
    extern const char own_begin[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));
    extern const char own_end[] __asm__("_end") __attribute__((visibility("hidden")));
    return (uintptr_t)caller >= (uintptr_t)own_begin && (uintptr_t)caller < (uintptr_t)own_end;
}

static struct onward go_on(const char *path, int mode, void *caller)
{
    struct loading loading = {.given = path, .passed = path, .root = -1};
    void *answer;
    fan_cancel_look_again();
    if (fan_job.view_count > 0 && path != NULL && path[0] != '\0' && !is_ours(caller) &&
        prepare(&loading, mode, caller, &answer))
        return (struct onward){NULL, answer};
    return (struct onward){(void *)REAL(dlopen), loading.passed};
}

/* Loads a library whose system calls must be redirected. Calls the real dlopen instead of jumping
 * to it, because code must run afterwards. */
static struct onward load_raw(struct onward to, int mode)
{
    void *handle = REAL(dlopen)(to.path, mode);
    if (handle != NULL)
        fan_raw_loaded(handle);
    return (struct onward){NULL, handle};
}

struct onward fan_load_dlopen(const char *path, int mode, void *caller)
{
    struct onward to = go_on(path, mode, caller);
    if (fan_job.view_count > 0 && to.call != NULL && to.path != NULL && fan_raw_wanted(to.path))
        return load_raw(to, mode);
    return to;
}

void fan_load_begin(char **env)
{
    char **now = fan_environment_find(env, FAN_LIBRARY_PATH "=");
    char **was = fan_environment_find(env, FAN_LIBRARY_PATH_WAS "=");
    char **none = fan_environment_find(env, FAN_LIBRARY_PATH_NONE "=");
    fan_real_call(
        FAN_REAL_dlerror); /* a later look-up would lose the error's text: dlsym drops it */
    if (now != NULL && fan_code_mentions_mount(*now))
        library_path = fan_code_keep(*now + sizeof(FAN_LIBRARY_PATH));
    library_path_replaced = library_path != NULL && (was != NULL || none != NULL);
    if (now != NULL && was != NULL)
        *now = *was + sizeof(FAN_LIBRARY_PATH_WAS) - sizeof(FAN_LIBRARY_PATH);
    fan_environment_remove(was);
    now = fan_environment_find(env, FAN_LIBRARY_PATH "=");
    if (none != NULL)
        fan_environment_remove(now);
    fan_environment_remove(fan_environment_find(env, FAN_LIBRARY_PATH_NONE "="));
}
