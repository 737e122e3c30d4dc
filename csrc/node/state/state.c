#include "state.h"

#include "../machine/shared.h"

void fan_node_enter(struct fan_node *node)
{
    __atomic_fetch_add(&node->callers, 1, __ATOMIC_ACQ_REL);
    pthread_mutex_lock(&node->lock);
    __atomic_fetch_sub(&node->callers, 1, __ATOMIC_ACQ_REL);
}

void fan_node_leave(struct fan_node *node)
{
    pthread_mutex_unlock(&node->lock);
}

void fan_node_ring(struct fan_node *node)
{
    uint32_t *doorbell = &node->segment.header->doorbell;
    __atomic_fetch_add(doorbell, 1, __ATOMIC_SEQ_CST);
    fan_futex_wake(doorbell);
}
