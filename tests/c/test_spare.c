/* Kept memory: had again, large enough, never two users' at once, and not kept without bound. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "../../csrc/common/spare.h"
#include "check.h"

static struct fan_spares spares;

static bool is_mapped(void *memory)
{
    unsigned char resident;
    return mincore((void *)((uintptr_t)memory & ~(uintptr_t)4095), 1, &resident) == 0;
}

static void check_again(void)
{
    void *first = fan_spare_take(&spares, 5000);
    CHECK(first != NULL && (uintptr_t)first % 64 == 0);
    void *second = fan_spare_take(&spares, 5000);
    CHECK(second != NULL && second != first);
    fan_spare_give(&spares, first);
    CHECK(fan_spare_take(&spares, 4000) == first);
    fan_spare_give(&spares, first);
    fan_spare_give(&spares, second);
}

static void check_larger(void)
{
    enum { SMALL = 100, LARGE = 1 << 20 };
    fan_spare_give(&spares, fan_spare_take(&spares, SMALL));
    char *large = fan_spare_take(&spares, LARGE), *small = fan_spare_take(&spares, SMALL);
    CHECK(large != NULL && small != NULL);
    memset(large, 1, LARGE);
    memset(small, 2, SMALL);
    for (unsigned i = 0; i < LARGE; i++)
        CHECK(large[i] == 1);
    fan_spare_give(&spares, large);
    fan_spare_give(&spares, small);
}

static void check_bounds(void)
{
    enum { MANY = FAN_SPARES + 3 };
    void *taken[MANY];
    unsigned mapped = 0;
    for (unsigned i = 0; i < MANY; i++)
        CHECK((taken[i] = fan_spare_take(&spares, 2 << 20)) != NULL);
    for (unsigned i = 0; i < MANY; i++)
        fan_spare_give(&spares, taken[i]);
    for (unsigned i = 0; i < MANY; i++)
        mapped += is_mapped(taken[i]);
    CHECK(mapped == FAN_SPARES);
    void *huge = fan_spare_take(&spares, FAN_SPARE_KEPT_BYTES + 1);
    CHECK(huge != NULL && is_mapped(huge));
    fan_spare_give(&spares, huge);
    CHECK(!is_mapped(huge));
    CHECK(fan_spare_take(&spares, SIZE_MAX) == NULL);
    CHECK(fan_spare_take(&spares, SIZE_MAX / 2) == NULL);
}

/* All of one size, so that none goes: the thread sanitizer does not see it go, and takes what is
 * mapped at its address afterwards for the same memory. */
static void *use_many(void *argument)
{
    enum { BYTES = 30000 };
    char mark = (char)(uintptr_t)argument;
    for (int round = 0; round < 2000; round++) {
        char *memory = fan_spare_take(&spares, BYTES);
        CHECK(memory != NULL);
        memset(memory, mark, BYTES);
        for (size_t i = 0; i < BYTES; i += 61)
            CHECK(memory[i] == mark);
        fan_spare_give(&spares, memory);
    }
    return NULL;
}

static void check_threads(void)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, use_many, (void *)(i + 1)) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(void)
{
    check_threads();
    check_again();
    check_larger();
    check_bounds();
    printf("test_spare: no fault\n");
    return 0;
}
