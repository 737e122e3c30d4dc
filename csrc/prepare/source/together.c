#include "together.h"

#include <pthread.h>

void fan_together(uint64_t wanted, void *(*work)(void *argument), void *argument)
{
    pthread_t threads[FAN_TOGETHER_MOST - 1];
    uint64_t most = wanted < FAN_TOGETHER_MOST ? wanted : FAN_TOGETHER_MOST;
    unsigned count = 0;
    while (count + 1 < most && pthread_create(&threads[count], NULL, work, argument) == 0)
        count++;
    work(argument);
    while (count > 0)
        pthread_join(threads[--count], NULL);
}
