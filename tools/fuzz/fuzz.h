/*
 * The interface of a fuzz target. LLVMFuzzerTestOneInput has libFuzzer's signature, so a target can
 * also be linked with libFuzzer; driver.c is a small driver of our own that needs no clang.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Runs the code under test on untrusted bytes. Returns 0; the sanitizer reports faults. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Writes valid input number `number` to `buffer`. Returns its length, or 0 if there is no such
 * seed. */
size_t fan_fuzz_seed(unsigned number, uint8_t *buffer, size_t capacity);
