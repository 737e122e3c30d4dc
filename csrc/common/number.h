/* Writes and reads decimal numbers in places where printf(3) must not be called: signal handlers
 * and vfork children. */
#pragma once

/* Writes `number` in decimal with at least `width` digits (10 at most), not terminated. Returns the
 * end of the digits. */
static inline char *fan_put_padded(char *to, unsigned number, unsigned width)
{
    char digits[10];
    unsigned count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0 || count < width);
    while (count > 0)
        *to++ = digits[--count];
    return to;
}

static inline char *fan_put_number(char *to, unsigned number)
{
    return fan_put_padded(to, number, 1);
}

/* Reads the digits at *text, and moves *text past them. Returns -1 if there are none, or if the
 * number is larger than `most`. */
static inline long fan_take_number(const char **text, long most)
{
    const char *start = *text;
    long number = 0;
    for (; **text >= '0' && **text <= '9'; (*text)++)
        number = number > most ? number : number * 10 + (**text - '0');
    return *text > start && number <= most ? number : -1;
}
