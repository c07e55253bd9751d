/* Included by the models: what the judge says when something does not hold. */
#define WRONG(words) printf("WRONG: "); printf(words); printf("\n"); assert(false)
