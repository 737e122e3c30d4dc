/*
 * Runs a target on mutations of its seeds, made by a seeded random generator, for a number of
 * rounds.
 *
 *     fuzz_index [--rounds N] [--seed S] [FILE...]
 *
 * FILEs are run unchanged, to repeat a finding. The input of the present round is in the file
 * `fuzz-input` of the current folder, so that it survives a crash.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

enum { CAPACITY = 1 << 18, SEEDS_MAX = 16 };

static uint64_t random_state;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static uint64_t below(uint64_t limit)
{
    return limit == 0 ? 0 : next_random() % limit;
}

static uint64_t odd_value(void)
{
    static const uint64_t values[] = {
        0,          1,          2,          4095,       4096,        UINT32_MAX - 1,
        UINT32_MAX, 1ull << 32, 1ull << 40, INT64_MAX,  1ull << 63,  UINT64_MAX - 63,
        UINT64_MAX, 0xffff,     0x10000,    511,        512,         64,
    };
    return values[below(sizeof(values) / sizeof(values[0]))];
}

/* Returns a position to change: mostly near the front, where the headers are. */
static size_t position(size_t bytes)
{
    size_t limit = below(2) ? bytes : (bytes < 1024 ? bytes : 1024);
    return below(limit);
}

static void overwrite(uint8_t *data, size_t bytes, size_t width)
{
    uint64_t value = below(2) ? odd_value() : next_random() >> below(64);
    size_t at = position(bytes) / width * width;
    if (at + width <= bytes)
        memcpy(data + at, &value, width);
}

static size_t mutate(uint8_t *data, size_t bytes)
{
    switch (below(7)) {
    case 0:
        data[position(bytes)] ^= (uint8_t)(1u << below(8));
        break;
    case 1:
        data[position(bytes)] = (uint8_t)next_random();
        break;
    case 2:
        return below(8) == 0 ? below(bytes) + 1 : bytes;
    case 3: {
        size_t from = position(bytes), to = position(bytes), count = below(64);
        if (from + count <= bytes && to + count <= bytes)
            memmove(data + to, data + from, count);
        break;
    }
    default: {
        static const size_t widths[] = {2, 4, 8, 8};
        overwrite(data, bytes, widths[below(4)]);
    }
    }
    return bytes;
}

/* Opens the record of the present input, a shared mapping, which is written even if the process
 * crashes. */
static uint8_t *open_record(void)
{
    int fd = open("fuzz-input", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || ftruncate(fd, CAPACITY) != 0) {
        perror("fuzz-input");
        exit(2);
    }
    uint8_t *record = mmap(NULL, CAPACITY, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return record;
}

static void fuzz(uint64_t rounds, const char *name)
{
    static uint8_t seeds[SEEDS_MAX][CAPACITY];
    size_t sizes[SEEDS_MAX];
    unsigned count = 0;
    while (count < SEEDS_MAX && (sizes[count] = fan_fuzz_seed(count, seeds[count], CAPACITY)) > 0)
        LLVMFuzzerTestOneInput(seeds[count], sizes[count]), count++;
    uint8_t *record = open_record();
    for (uint64_t round = 0; count > 0 && round < rounds; round++) {
        unsigned seed = (unsigned)below(count);
        size_t bytes = sizes[seed];
        memcpy(record, seeds[seed], bytes);
        for (uint64_t change = 0, changes = 1 + below(6); change < changes; change++)
            bytes = mutate(record, bytes);
        LLVMFuzzerTestOneInput(record, bytes);
    }
    unlink("fuzz-input");
    printf("%s: %u seeds, %llu rounds, no fault\n", name, count, (unsigned long long)rounds);
}

static void run_file(const char *path)
{
    static uint8_t data[CAPACITY];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(2);
    }
    size_t bytes = fread(data, 1, sizeof(data), file);
    fclose(file);
    LLVMFuzzerTestOneInput(data, bytes);
    printf("%s: no fault\n", path);
}

int main(int argc, char **argv)
{
    uint64_t rounds = 20000;
    random_state = 20180419;
    int files = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            rounds = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            random_state = strtoull(argv[++i], NULL, 10) | 1;
        else
            run_file(argv[i]), files++;
    }
    if (files == 0)
        fuzz(rounds, argv[0]);
    return 0;
}
