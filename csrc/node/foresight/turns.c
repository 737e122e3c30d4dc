#include "turns.h"

/* A read that is this old counts half as much as a new one. */
static const double MEMORY_NS = 4e9;

void fan_pace_note(struct fan_pace *pace, uint64_t read, bool waited, uint64_t now_ns)
{
    bool known = pace->at_ns != 0;
    if (known && (read <= pace->read || now_ns <= pace->at_ns))
        return;
    double records = (double)(read - pace->read), time_ns = (double)(now_ns - pace->at_ns);
    pace->read = read;
    pace->at_ns = now_ns;
    if (!known || (waited && records * pace->time_ns <= pace->records * time_ns))
        return;
    double kept = MEMORY_NS / (MEMORY_NS + time_ns);
    pace->records = pace->records * kept + records;
    pace->time_ns = pace->time_ns * kept + time_ns;
}

/* Returns the time for one record; 0 if unknown. For a stream that has records ahead and reads
 * none, it grows. */
static double period_ns(const struct fan_turn *turn, uint64_t now_ns)
{
    const struct fan_pace *pace = &turn->pace;
    if (pace->records <= 0)
        return 0;
    bool idle = turn->ahead > 0 && now_ns > pace->at_ns;
    return (pace->time_ns + (idle ? (double)(now_ns - pace->at_ns) : 0)) / pace->records;
}

void fan_turns_begin(struct fan_queue *turns, uint64_t now_ns)
{
    double least_ns = 0;
    for (struct fan_turn *turn = fan_turn_first(turns); turn != NULL; turn = fan_turn_after(turn)) {
        turn->held = false;
        turn->period_ns = period_ns(turn, now_ns);
        if (turn->period_ns > 0 && (least_ns <= 0 || turn->period_ns < least_ns))
            least_ns = turn->period_ns;
    }
    for (struct fan_turn *turn = fan_turn_first(turns); turn != NULL; turn = fan_turn_after(turn)) {
        if (turn->period_ns <= 0)
            turn->period_ns = least_ns > 0 ? least_ns : 1;
    }
}

/* Returns the time until the reader needs the record that would be fetched next. */
static double lead_ns(const struct fan_turn *turn)
{
    return (double)turn->ahead * turn->period_ns;
}

struct fan_turn *fan_turns_next(const struct fan_queue *turns)
{
    struct fan_turn *soonest = NULL;
    for (struct fan_turn *turn = fan_turn_first(turns); turn != NULL; turn = fan_turn_after(turn)) {
        if (!turn->held && (soonest == NULL || lead_ns(turn) < lead_ns(soonest)))
            soonest = turn;
    }
    return soonest;
}

static void go_last(struct fan_queue *turns, struct fan_turn *turn)
{
    fan_queue_remove(turns, &turn->link);
    fan_queue_put(turns, &turn->link);
}

void fan_turns_took(struct fan_queue *turns, struct fan_turn *turn)
{
    turn->ahead++;
    go_last(turns, turn);
}

void fan_turns_hold(struct fan_queue *turns, struct fan_turn *turn)
{
    turn->held = true;
    go_last(turns, turn);
}
