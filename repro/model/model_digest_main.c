/* Prints the digest of the reference runs' logits and tokens: the builds of all compilers must print the same. */
#include <inttypes.h>
#include <stdio.h>

#include "model.h"

int main(void)
{
    uint64_t digest = model_reference_digest();

    if (digest == 0) {
        fputs("model-digest: out of memory\n", stderr);
        return 1;
    }
    printf("%016" PRIx64 "\n", digest);
    return 0;
}
