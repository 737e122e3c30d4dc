/*
 * What a fuzz target provides. LLVMFuzzerTestOneInput has libFuzzer's signature, so a target can
 * be linked with it too; driver.c is a small driver of our own that needs no clang.
 */
#ifndef FAN_FUZZ_FUZZ_H
#define FAN_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Runs the code under test on untrusted bytes. Returns 0; a fault is the sanitizer's to report. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Makes valid input `number` in `buffer`. Its length, or 0 when there is no such seed. */
size_t fan_fuzz_seed(unsigned number, uint8_t *buffer, size_t capacity);

#endif
