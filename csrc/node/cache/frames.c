#include "frames.h"

void fan_frames_append(struct fan_frame *frames, struct fan_frames *list, uint32_t id)
{
    struct fan_frame *frame = &frames[id];
    frame->previous = list->tail;
    frame->next = FAN_NO_FRAME;
    if (list->tail == FAN_NO_FRAME)
        list->head = id;
    else
        frames[list->tail].next = id;
    list->tail = id;
    list->count++;
}

void fan_frames_prepend(struct fan_frame *frames, struct fan_frames *list, uint32_t id)
{
    struct fan_frame *frame = &frames[id];
    frame->previous = FAN_NO_FRAME;
    frame->next = list->head;
    if (list->head == FAN_NO_FRAME)
        list->tail = id;
    else
        frames[list->head].previous = id;
    list->head = id;
    list->count++;
}

void fan_frames_detach(struct fan_frame *frames, struct fan_frames *list, uint32_t id)
{
    struct fan_frame *frame = &frames[id];
    if (frame->previous == FAN_NO_FRAME)
        list->head = frame->next;
    else
        frames[frame->previous].next = frame->next;
    if (frame->next == FAN_NO_FRAME)
        list->tail = frame->previous;
    else
        frames[frame->next].previous = frame->previous;
    list->count--;
}
