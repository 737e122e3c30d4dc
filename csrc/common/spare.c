#include "spare.h"

#include "sys.h"

/* Lies in front of the memory that the caller gets. bytes: the size of the mapping, including this
 * struct. */
struct head {
    size_t bytes;
} __attribute__((aligned(64)));

static void unmap(struct head *head)
{
    fan_sys_munmap(head, head->bytes);
}

/* Returns a kept mapping of at least `bytes` bytes, or NULL. Unmaps smaller ones, because they
 * would be in the way again. */
static struct head *find(struct fan_spares *spares, size_t bytes)
{
    for (unsigned i = 0; i < FAN_SPARES; i++) {
        struct head *head = atomic_exchange(&spares->kept[i], NULL);
        if (head == NULL)
            continue;
        if (head->bytes >= bytes)
            return head;
        unmap(head);
    }
    return NULL;
}

static struct head *make(size_t bytes)
{
    struct head *head = fan_sys_memory(bytes);
    if (head != NULL)
        head->bytes = bytes;
    return head;
}

void *fan_spare_take(struct fan_spares *spares, size_t bytes)
{
    struct head *head;
    if (__builtin_add_overflow(bytes, sizeof(*head), &bytes))
        return NULL;
    head = find(spares, bytes);
    if (head == NULL)
        head = make(bytes);
    return head != NULL ? head + 1 : NULL;
}

void fan_spare_give(struct fan_spares *spares, void *memory)
{
    struct head *head = (struct head *)memory - 1;
    for (unsigned i = 0; i < FAN_SPARES && head->bytes <= FAN_SPARE_KEPT_BYTES; i++) {
        void *none = NULL;
        if (atomic_compare_exchange_strong(&spares->kept[i], &none, head))
            return;
    }
    unmap(head);
}

static struct fan_spares off_stack;

void *fan_off_stack(void)
{
    return fan_spare_take(&off_stack, FAN_OFF_STACK_BYTES);
}

void fan_off_stack_end(void *variable)
{
    void *memory = *(void **)variable;
    if (memory != NULL)
        fan_spare_give(&off_stack, memory);
}
