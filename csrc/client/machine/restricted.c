#include "restricted.h"

atomic_bool fan_restricted_flag;
