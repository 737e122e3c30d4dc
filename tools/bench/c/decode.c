/*
 * The raw decoder: decodes the bytes of packs, from memory, and does nothing else.
 *
 *     decode lz4|zstd BLOCK_BYTES <LIST-FILE>
 *     LIST-FILE: lines of KIND PACK OFFSET STORED_BYTES LOGICAL_BYTES
 *     decode KIND 1 WINDOW_NS   ->   UNITS NANOSECONDS SUM
 *
 * A file larger than a block is stored as a table of the ends of its blocks, then the blocks. A
 * file whose stored size is its logical size is stored uncompressed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "lz.h"
#include "paths.h"

enum { BUFFER_BYTES = 8 << 20, FILES_MAX = 65536, PACKS_MAX = 64 };

struct file {
    char kind[64];
    const uint8_t *stored;
    size_t stored_bytes;
    size_t logical_bytes;
};

static struct file files[FILES_MAX];
static size_t file_count, block_bytes;
static uint8_t *buffer;
static int use_zstd;
static int (*lz4_decompress)(const char *, char *, int, int);
static size_t (*zstd_decompress)(void *, size_t, const void *, size_t);

static const uint8_t *map_pack(const char *path)
{
    static struct {
        char path[PATH_BYTES];
        const uint8_t *content;
    } packs[PACKS_MAX];
    size_t at = 0;
    struct stat st;
    while (packs[at].content != NULL && strcmp(packs[at].path, path) != 0)
        at++;
    if (packs[at].content != NULL)
        return packs[at].content;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (at == PACKS_MAX - 1 || fd < 0 || fstat(fd, &st) != 0)
        fail(path);
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (map == MAP_FAILED)
        fail(path);
    snprintf(packs[at].path, sizeof(packs[at].path), "%s", path);
    return packs[at].content = map;
}

static void read_list(const char *path)
{
    char pack[PATH_BYTES];
    size_t offset;
    FILE *list = fopen(path, "re");
    if (list == NULL)
        fail(path);
    for (; file_count < FILES_MAX; file_count++) {
        struct file *file = &files[file_count];
        if (fscanf(list, "%63s %4095s %zu %zu %zu", file->kind, pack, &offset, &file->stored_bytes,
                   &file->logical_bytes) != 5)
            break;
        file->stored = map_pack(pack) + offset;
    }
    fclose(list);
}

static void decode_block(const uint8_t *from, size_t stored, uint8_t *to, size_t logical)
{
    size_t made = logical;
    if (stored == logical)
        memcpy(to, from, logical);
    else if (use_zstd)
        made = zstd_decompress(to, logical, from, stored);
    else
        made = (size_t)lz4_decompress((const char *)from, (char *)to, (int)stored, (int)logical);
    if (made != logical) {
        errno = EIO;
        fail("decoding");
    }
}

static void decode_file(const struct file *file)
{
    size_t blocks = (file->logical_bytes + block_bytes - 1) / block_bytes;
    uint64_t start = 8 * blocks, end;
    if (blocks == 1 || file->stored_bytes == file->logical_bytes) {
        decode_block(file->stored, file->stored_bytes, buffer, file->logical_bytes);
        return;
    }
    for (size_t i = 0; i < blocks; i++, start = end) {
        size_t left = file->logical_bytes - i * block_bytes;
        memcpy(&end, file->stored + 8 * i, 8);
        decode_block(file->stored + start, (size_t)(end - start), buffer + i * block_bytes,
                     left < block_bytes ? left : block_bytes);
    }
}

/* Decodes the files of a kind in a random order until the window is over. */
static void answer(const char *kind, uint64_t window_ns)
{
    static uint64_t state = 88172645463325252u;
    uint32_t *order = random_order(file_count, &state);
    uint64_t units = 0, start = now_ns(), now = start;
    for (size_t at = 0; now - start < window_ns; at = (at + 1) % file_count) {
        const struct file *file = &files[order[at]];
        if (strcmp(file->kind, kind) == 0) {
            decode_file(file);
            units++;
            now = now_ns();
        }
    }
    printf("%llu %llu %llu 0\n", (unsigned long long)units, (unsigned long long)start,
           (unsigned long long)now);
    fflush(stdout);
    free(order);
}

int main(int argc, char **argv)
{
    char name[32], kind[64];
    unsigned threads;
    unsigned long long window_ns;
    if (argc != 4)
        return 2;
    use_zstd = strcmp(argv[1], "zstd") == 0;
    if (use_zstd)
        *(void **)&zstd_decompress = library_function("libzstd.so.1", "ZSTD_decompress");
    else
        *(void **)&lz4_decompress = library_function("liblz4.so.1", "LZ4_decompress_safe");
    block_bytes = (size_t)atol(argv[2]);
    buffer = aligned_alloc(4096, BUFFER_BYTES);
    memset(buffer, 1, BUFFER_BYTES);
    read_list(argv[3]);
    while (scanf("%31s %63s %u %llu", name, kind, &threads, &window_ns) == 4)
        answer(kind, window_ns);
    return 0;
}
