#include "node_readers.h"

#include <pthread.h>

#include "check.h"
#include "node_client.h"

enum { THREADS = 2 };

struct reader {
    pthread_t thread;
    struct world *world;
    struct node_client *client;
    uint32_t rank;
    unsigned pin;
    unsigned rounds;
};

/* Reads every file whose pack this rank does not have, each reader in another order. */
static void *read_all(void *argument)
{
    struct reader *reader = argument;
    for (uint64_t i = 0; i < WORLD_FILES * reader->rounds; i++) {
        uint64_t record = 1 + (i * 5 + reader->pin * 11 + reader->rank) % WORLD_FILES;
        if (!world_has(reader->world, reader->rank, world_file_pack(record)))
            CHECK(client_read(reader->client, reader->pin, record) == 0);
    }
    return NULL;
}

void read_on(struct world *world, unsigned ranks, unsigned rounds)
{
    struct node_client clients[LOOPBACK_RANKS][2];
    struct reader readers[LOOPBACK_RANKS][THREADS + 1];
    for (uint32_t rank = 0; rank < world->shape.ranks; rank++) {
        if ((ranks >> rank & 1) == 0)
            continue;
        client_open(&clients[rank][0], world->nodes[rank]);
        client_open(&clients[rank][1], world->nodes[rank]);
        for (unsigned i = 0; i <= THREADS; i++) {
            struct reader *reader = &readers[rank][i];
            *reader = (struct reader){.world = world, .client = &clients[rank][i / THREADS],
                                      .rank = rank, .pin = i, .rounds = rounds};
            CHECK(pthread_create(&reader->thread, NULL, read_all, reader) == 0);
        }
    }
    for (uint32_t rank = 0; rank < world->shape.ranks; rank++) {
        for (unsigned i = 0; (ranks >> rank & 1) != 0 && i <= THREADS; i++)
            CHECK(pthread_join(readers[rank][i].thread, NULL) == 0);
        for (unsigned i = 0; (ranks >> rank & 1) != 0 && i < 2; i++)
            client_close(&clients[rank][i]);
    }
}
