/*
 * The layout table: sizes and offsets, by the C compiler, of every struct that Python reads through
 * cffi. fanstore._native compares them with cffi's own when it loads the library, and names the
 * first field that differs.
 *
 * tools/native.py generates the table from the parts of the headers between the cffi marks.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* cffi: begin */
/* The size of a struct (field is NULL, offset 0), or the offset and size of one of its fields; in
 * bytes. */
struct fan_layout_entry {
    const char *name;
    const char *field;
    uint64_t offset;
    uint64_t bytes;
};

/* Returns the table, and the number of its entries in `count`. */
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
