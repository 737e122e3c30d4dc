/*
 * The layout table: the C compiler's sizes and offsets of every struct that Python reads through
 * cffi. When fanstore._native loads the library it compares them with cffi's own, and names the
 * field in its error if one differs.
 *
 * The table itself is generated from the fenced parts of the headers (tools/native.py).
 */
#ifndef FAN_FORMAT_FORMAT_CHECK_H
#define FAN_FORMAT_FORMAT_CHECK_H

#include <stddef.h>
#include <stdint.h>

/* cffi: begin */
/* One struct (field is null, offset 0) or one of its fields. Sizes and offsets in bytes. */
struct fan_layout_entry {
    const char *name;
    const char *field;
    uint64_t offset;
    uint64_t bytes;
};

/* The table, with the number of its entries in `count`. */
const struct fan_layout_entry *fan_layout_table(uint64_t *count);
/* cffi: end */

extern const struct fan_layout_entry fan_layout_entries[];
extern const uint64_t fan_layout_entry_count;

#define FAN_LAYOUT_STRUCT(struct_name)                                                             \
    {                                                                                              \
        .name = #struct_name, .bytes = sizeof(struct struct_name)                                  \
    }
#define FAN_LAYOUT_FIELD(struct_name, field_name)                                                  \
    {                                                                                              \
        .name = #struct_name, .field = #field_name,                                                \
        .offset = offsetof(struct struct_name, field_name),                                        \
        .bytes = sizeof(((struct struct_name *)0)->field_name)                                     \
    }

#endif
