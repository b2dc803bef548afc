/*
 * The world is one block of bytes without padding, pointers or compile-time maxima: a row of tables whose offsets follow
 * from the configuration. A table's cells are one or two bytes wide (little endian), whichever its largest value needs.
 * Unused cells are zero, so equal situations are equal bytes and can be hashed and compared as they are.
 */
#ifndef KVREPRO_CELLS_H
#define KVREPRO_CELLS_H

#include <assert.h>
#include <stdint.h>

struct cells {
    uint32_t offset; /* bytes from the start of the block that the table belongs to */
    uint32_t width;  /* bytes of one cell: 1 or 2 */
    uint32_t len;
};

static inline unsigned cell(const uint8_t *block, const struct cells *t, unsigned i)
{
    assert(i < t->len);
    if (t->width == 1)
        return block[t->offset + i];
    return (unsigned)block[t->offset + 2 * i] | (unsigned)block[t->offset + 2 * i + 1] << 8;
}

static inline void cell_set(uint8_t *block, const struct cells *t, unsigned i, unsigned value)
{
    assert(i < t->len);
    if (t->width == 1) {
        assert(value <= 0xff);
        block[t->offset + i] = (uint8_t)value;
    } else {
        assert(value <= 0xffff);
        block[t->offset + 2 * i] = (uint8_t)value;
        block[t->offset + 2 * i + 1] = (uint8_t)(value >> 8);
    }
}

#endif
