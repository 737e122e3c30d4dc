#include "raw_sites.h"

#if FAN_RAW_CALLS
#include <emmintrin.h>

/* Bytes that must follow before `end`: there is always code after a call, so that decoding what is
 * before the call never reaches the end. */
enum { INSTRUCTION_BYTES = 8 };

/* Returns the next `syscall`, or two bytes that look like one. */
static const unsigned char *find_syscall(const unsigned char *at, const unsigned char *end)
{
    const __m128i first = _mm_set1_epi8(0x0f), second = _mm_set1_epi8(0x05);
    for (; end - at > 16; at += 16) {
        __m128i here = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)at), first);
        __m128i next = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(at + 1)), second);
        int found = _mm_movemask_epi8(_mm_and_si128(here, next));
        if (found != 0)
            return at + __builtin_ctz((unsigned)found);
    }
    for (; end - at >= FAN_RAW_SYSCALL_BYTES; at++) {
        if (at[0] == 0x0f && at[1] == 0x05)
            return at;
    }
    return NULL;
}

/* Returns the size of an operand in memory or a register, counted from its ModRM byte. Returns 0 if
 * its address is relative to the instruction, which therefore cannot move. */
static unsigned operand_bytes(const unsigned char *at)
{
    unsigned mode = at[0] >> 6, kind = at[0] & 7, bytes = 1;
    if (mode == 3)
        return bytes;
    if (mode == 0 && kind == 5)
        return 0;
    if (kind == 4) {
        bytes++;
        if (mode == 0 && (at[1] & 7) == 5)
            bytes += 4;
    }
    return bytes + (mode == 1 ? 1 : mode == 2 ? 4 : 0);
}

static unsigned with_operand(const unsigned char *at, unsigned before, unsigned behind)
{
    unsigned operand = operand_bytes(at + before);
    return operand != 0 ? before + operand + behind : 0;
}

/* Returns the length of an instruction if it is of the few kinds that load arguments; 0 for any
 * other, which must stay where it is. */
static unsigned movable_bytes(const unsigned char *at)
{
    unsigned rex = (at[0] & 0xf0) == 0x40 ? 1 : 0;
    bool wide = rex && (at[0] & 8);
    unsigned char code = at[rex];
    switch (code) {
    case 0x01: case 0x03: case 0x09: case 0x0b: case 0x21: case 0x23: case 0x29: case 0x2b:
    case 0x31: case 0x33: case 0x63: case 0x89: case 0x8b: case 0x8d: case 0x85:
        return with_operand(at, rex + 1, 0);
    case 0x83:
        return with_operand(at, rex + 1, 1);
    case 0x81: case 0xc7:
        return with_operand(at, rex + 1, 4);
    case 0x0f:
        if (at[rex + 1] == 0xb6 || at[rex + 1] == 0xb7 || at[rex + 1] >> 4 == 0x4)
            return with_operand(at, rex + 2, 0);
        return 0;
    default:
        return code >> 3 == 0xb8 >> 3 ? rex + (wide ? 9u : 5u) : 0;
    }
}

/* Returns whether a movable instruction uses eax. If so, the value loaded before is no call
 * number. */
static bool names_eax(const unsigned char *at)
{
    enum { REX_R = 4, REX_B = 1 };
    unsigned rex = (at[0] & 0xf0) == 0x40 ? at[0] : 0;
    unsigned char code = at[rex != 0];
    if (code >> 3 == 0xb8 >> 3)
        return code == 0xb8 && !(rex & REX_B);
    bool immediate = code == 0x81 || code == 0x83 || code == 0xc7;
    unsigned operands = at[(rex != 0) + (code == 0x0f ? 2 : 1)];
    return (!immediate && (operands >> 3 & 7) == 0 && !(rex & REX_R)) ||
           ((operands & 7) == 0 && !(rex & REX_B));
}

enum leading { ANY_LOADS, LOADS_OF_OTHERS /* than eax */ };

/* Returns whether there are only movable instructions from `at` to the call. */
static bool leads_to(const unsigned char *at, const unsigned char *call, enum leading how)
{
    while (at < call) {
        unsigned bytes = movable_bytes(at);
        if (bytes == 0 || (how == LOADS_OF_OTHERS && names_eax(at)))
            return false;
        at += bytes;
    }
    return at == call;
}

/* Returns whether a longer instruction may contain `at` in its middle: as part of an address or of
 * a number that it stores. */
static bool is_inside(const unsigned char *begin, const unsigned char *at,
                      const unsigned char *call)
{
    enum { LONGEST = 12 };
    for (unsigned back = 1; back < LONGEST && (ptrdiff_t)back <= at - begin; back++) {
        unsigned bytes = movable_bytes(at - back);
        bool same = back == 1 && (at[-1] & 0xf9) == 0x40; /* a prefix that does not change it */
        if (bytes > back && !same && leads_to(at - back + bytes, call, ANY_LOADS))
            return true;
    }
    return false;
}

/* Returns whether `mov $number, %eax` with a wanted number lies at `at`. */
static bool is_number(const unsigned char *begin, const unsigned char *at,
                      const unsigned char *call, bool (*wanted)(long number))
{
    return at[0] == 0xb8 && at[3] == 0 && at[4] == 0 && wanted(at[1] | at[2] << 8) &&
           leads_to(at + FAN_RAW_MOV_BYTES, call, LOADS_OF_OTHERS) && !is_inside(begin, at, call);
}

bool fan_raw_next(const unsigned char *begin, const unsigned char **at, const unsigned char *end,
                  bool (*wanted)(long number), struct fan_raw_site *site)
{
    const unsigned char *call;
    while ((call = find_syscall(*at, end)) != NULL && end - call >= INSTRUCTION_BYTES) {
        *at = call + FAN_RAW_SYSCALL_BYTES;
        ptrdiff_t room = call - begin, most = FAN_RAW_SITE_BYTES - FAN_RAW_SYSCALL_BYTES;
        for (ptrdiff_t back = FAN_RAW_MOV_BYTES; back <= most && back <= room; back++) {
            if (is_number(begin, call - back, call, wanted)) {
                *site = (struct fan_raw_site){call - back, call + FAN_RAW_SYSCALL_BYTES};
                return true;
            }
        }
    }
    return false;
}
#endif
