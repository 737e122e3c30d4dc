#include "streams.h"

#include <stdbool.h>

#include "../../format/cache_format.h"

/* LENGTH_LEAST: wants in a row that make a run: fewer occur when a read crosses from one block to
 * the next, or reads a short file. AHEAD_MOST: blocks fetched ahead of a run. */
enum { LENGTH_LEAST = 3, AHEAD_MOST = 8 };

uint32_t fan_streams_note(struct fan_streams *streams, uint32_t session, uint64_t file,
                          uint64_t block)
{
    struct fan_stream *stream = &streams->streams[fan_cache_hash(file, session) % FAN_STREAMS];
    bool known = stream->file == file && stream->session == session;
    if (known && block <= stream->last && block + AHEAD_MOST > stream->last)
        return 0; /* several blocks were wanted at once, in any order */
    bool goes_on = known && block > stream->last && block <= stream->next;
    uint32_t length = goes_on ? stream->length + 1 : 1;
    uint32_t ahead = length < LENGTH_LEAST ? 0 : length < AHEAD_MOST ? length : AHEAD_MOST;
    *stream = (struct fan_stream){.file = file,
                                  .last = block,
                                  .next = block + 1 + ahead,
                                  .session = session,
                                  .length = length};
    return ahead;
}
