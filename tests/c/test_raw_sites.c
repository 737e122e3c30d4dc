/* System calls in code: those of wanted numbers are found, look-alikes are not, and nothing is
 * read before or behind the code. */
#include "../../csrc/client/machine/raw_sites.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"

#if FAN_RAW_CALLS
enum { PAGE = 4096 };

#define MOV_EAX(low, high) 0xb8, low, high, 0, 0
#define CALL_AND_MORE 0x0f, 0x05, 0x48, 0x89, 0xc2, 0x48, 0x85, 0xc0, 0xc3

static unsigned char *code; /* a page between two that are not there */

/* rename, openat, renameat and linkat stand for all that are redirected. */
static bool is_wanted(long number)
{
    return number == 0x101 || number == 0x108 || number == 0x13c || number == 0x52;
}

/* Whether a site is found in `bytes`, put at the code's end or begin; its place into `at`. */
static bool found(const unsigned char *bytes, size_t count, bool at_end, ptrdiff_t *at)
{
    unsigned char *begin = at_end ? code + PAGE - count : code;
    const unsigned char *from = begin;
    struct fan_raw_site site;
    memcpy(begin, bytes, count);
    if (!fan_raw_next(begin, &from, begin + count, is_wanted, &site))
        return false;
    *at = site.begin - begin;
    CHECK(site.end[-2] == 0x0f && site.end[-1] == 0x05);
    return true;
}

#define CHECK_FOUND(where, ...)                                                                    \
    do {                                                                                           \
        static const unsigned char bytes[] = {__VA_ARGS__};                                        \
        ptrdiff_t at;                                                                              \
        CHECK(found(bytes, sizeof(bytes), false, &at) && at == (where));                           \
        CHECK(found(bytes, sizeof(bytes), true, &at) && at == (where));                            \
    } while (0)

#define CHECK_LEFT(...)                                                                            \
    do {                                                                                           \
        static const unsigned char bytes[] = {__VA_ARGS__};                                        \
        ptrdiff_t at;                                                                              \
        CHECK(!found(bytes, sizeof(bytes), false, &at));                                           \
        CHECK(!found(bytes, sizeof(bytes), true, &at));                                            \
    } while (0)

static void check_found(void)
{
    CHECK_FOUND(0, MOV_EAX(1, 1), CALL_AND_MORE);
    /* mov $0x108,%eax; mov $-100,%edi; mov $-100,%edx; mov %r14,%rsi */
    CHECK_FOUND(1, 0x90, MOV_EAX(8, 1), 0xbf, 0x9c, 0xff, 0xff, 0xff, 0xba, 0x9c, 0xff, 0xff, 0xff,
                0x4c, 0x89, 0xf6, CALL_AND_MORE);
    /* movq $0,-0x48(%rbp) and movl $3,-0x48(%rsp) look as if they held a number */
    CHECK_FOUND(0, MOV_EAX(8, 1), 0x48, 0xc7, 0x45, 0xb8, 0, 0, 0, 0, CALL_AND_MORE);
    CHECK_FOUND(0, MOV_EAX(8, 1), 0xc7, 0x44, 0x24, 0xb8, 3, 0, 0, 0, CALL_AND_MORE);
    /* mov 0x40(%rsp),%r8 ends in what could begin a longer move */
    CHECK_FOUND(5, 0x4c, 0x8b, 0x44, 0x24, 0x40, MOV_EAX(0x3c, 1), 0x48, 0x89, 0xde, CALL_AND_MORE);
    CHECK_FOUND(5, 0x4c, 0x8b, 0x44, 0x24, 0x48, MOV_EAX(0x3c, 1), 0x48, 0x89, 0xde, CALL_AND_MORE);
}

static void check_left(void)
{
    CHECK_LEFT(CALL_AND_MORE);
    CHECK_LEFT(MOV_EAX(1, 1), 0x0f, 0x05);                         /* nothing behind it */
    CHECK_LEFT(MOV_EAX(0xca, 0), CALL_AND_MORE);                   /* futex is not wanted */
    CHECK_LEFT(0xb8, 1, 1, 1, 0, CALL_AND_MORE);                   /* no such number */
    CHECK_LEFT(0x41, MOV_EAX(1, 1), CALL_AND_MORE);                /* to r8 */
    CHECK_LEFT(MOV_EAX(1, 1), 0xeb, 0x00, CALL_AND_MORE);          /* a jump between */
    CHECK_LEFT(MOV_EAX(1, 1), 0xff, 0xd0, CALL_AND_MORE);          /* a call */
    CHECK_LEFT(MOV_EAX(1, 1), 0x48, 0x8d, 0x3d, 1, 2, 3, 4, CALL_AND_MORE); /* relative to itself */
    CHECK_LEFT(MOV_EAX(1, 1), 0xbf, 0, 0, CALL_AND_MORE);          /* inside another one */
    CHECK_LEFT(MOV_EAX(1, 1), MOV_EAX(0xca, 0), CALL_AND_MORE);    /* futex it is in the end */
    CHECK_LEFT(MOV_EAX(1, 1), 0x31, 0xc0, CALL_AND_MORE);          /* read */
    CHECK_LEFT(MOV_EAX(1, 1), 0x4c, 0x89, 0xf0, CALL_AND_MORE);    /* from a register */
    CHECK_LEFT(0x48, 0x8b, MOV_EAX(8, 1), CALL_AND_MORE);          /* mov 0x108(%rax),%rdi */
    CHECK_LEFT(0x48, 0x8d, MOV_EAX(8, 1), CALL_AND_MORE);          /* lea 0x108(%rax),%rdi */
    CHECK_LEFT(0x8b, 0x8c, MOV_EAX(8, 1), CALL_AND_MORE);          /* mov 0x108(%rax,%rdi,4),%ecx */
}

/* Any bytes at all: sites lie where they say, and each is looked at once. */
static void check_any(void)
{
    uint32_t state = 1;
    for (int round = 0; round < 2000; round++) {
        for (int i = 0; i < PAGE; i++) {
            static const unsigned char likely[] = {0x0f, 0x05, 0xb8, 0x01, 0x00, 0x48, 0x89, 0x41};
            state = state * 1664525 + 1013904223;
            code[i] = state & 1 << 30 ? likely[state >> 8 & 7] : (unsigned char)(state >> 16);
        }
        const unsigned char *from = code, *before = code;
        struct fan_raw_site site;
        while (fan_raw_next(code, &from, code + PAGE, is_wanted, &site)) {
            CHECK(site.begin >= code && site.end <= code + PAGE && from > before);
            CHECK(site.end - site.begin <= FAN_RAW_SITE_BYTES);
            before = from;
        }
    }
}

int main(void)
{
    unsigned char *pages = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    code = pages + PAGE;
    CHECK(mprotect(code, PAGE, PROT_READ | PROT_WRITE) == 0);
    check_found();
    check_left();
    check_any();
    return 0;
}
#else
int main(void)
{
    return 0;
}
#endif
