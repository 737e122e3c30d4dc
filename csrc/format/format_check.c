/* The sizes of structs in version 1 of the files on disk. If one of them changes, the layout id
 * must change. */
#include "format_check.h"

#include "index_format.h"
#include "pack_format.h"

_Static_assert(sizeof(struct fan_index_header) == FAN_INDEX_HEADER_BYTES, "index header");
_Static_assert(sizeof(struct fan_section) == 24, "section");
_Static_assert(sizeof(struct fan_record) == FAN_RECORD_BYTES, "record");
_Static_assert(sizeof(struct fan_owner) == 8, "owner");
_Static_assert(sizeof(struct fan_link) == 16, "link");
_Static_assert(sizeof(struct fan_pack_info) == 40, "pack info");
_Static_assert(sizeof(struct fan_pack_header) == 64, "pack header");
_Static_assert(sizeof(struct fan_pack_entry) == 80, "pack entry");
_Static_assert(sizeof(struct fan_pack_trailer) == 64, "pack trailer");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the formats are little-endian");

const struct fan_layout_entry *fan_layout_table(uint64_t *count)
{
    *count = fan_layout_entry_count;
    return fan_layout_entries;
}
