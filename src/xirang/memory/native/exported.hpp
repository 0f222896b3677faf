// What Python finds in a library. The rest is hidden: two of them live in one process.

#pragma once

#define XIRANG_EXPORTED extern "C" __attribute__((visibility("default")))
