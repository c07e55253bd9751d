/* When an owner may be declared dead: leases, beats, and the proof. jobs.pml and limit.pml build on what this file shows.
   docs/internals/model.md says which code each step stands for, and what is left out.

   One daemon, A, looks for dead ones. The other one, B, beats too. Time goes in ticks, and each beats once in a tick.
   Each may be silent for a time of its own. The server may be away, which no daemon is to blame for. It may lose its last
   writes, and its clock may be set forward. The command that declares B dead may arrive as late as it likes.

   A mend is taken out by the name in an #ifdef. */

#include "wrong.pml"

#ifndef TICKS
#define TICKS 7
#endif
/* In ticks. In seconds they are 60, 50, 60 and 30, and a beat comes every 5. */
#define LEASE 4                                 /* the server keeps a lease for so long */
#define FRESH 2                                 /* a daemon trusts its lease for so long */
#define STEADY 4                                /* all must be well for so long, before a missing lease is a death */
#define PROOF 1                                 /* a proof is so old at most */
#define STEP 2                                  /* by which the clock may be set forward */
#define NEVER 15

#define A 0
#define B 1

/* ------------------------------------------------------------------ the server */

byte now                                        /* by its clock */
bool up = 1                                     /* it serves */
byte lease[2] = LEASE                           /* what is left of each lease; 0: it has expired */
byte holds                                      /* the number of the beat that wrote the lease of A */
bool gone                                       /* B was declared dead */
byte old_lease[2], old_holds                    /* what the server has again when it loses its last writes */
bool has_old

/* ------------------------------------------------------------------ the daemons */

byte ticks                                      /* of time */
bool beaten[2] = 1                              /* since the last tick */
byte fresh[2] = FRESH                           /* ticks for which a daemon trusts its lease */
byte silent[2]                                  /* ticks at whose end the server served, since the last beat */
byte sent, confirmed                            /* of A: the number of its last beat, and of the last one with an answer */
byte heard                                      /* of A: the server's time at that one */
byte steady = NEVER                             /* of A: ticks since when all is well. NEVER: it is not */

bool asks                                       /* the command of A that declares B dead is on its way */
byte proof, proof_of                            /* the number of a beat, and the server's time at that one */

bool may_be_away = 1, may_be_set = 1, may_lose, may_be_silent[2]

/* ------------------------------------------------------------------ the steps */

#ifdef NO_GAP
#define AFTER_GAP false
#else
#define AFTER_GAP (now > heard + PROOF)
#endif
#ifdef NO_KEPT
#define AFTER_LOSS false
#else
#define AFTER_LOSS (lease[A] == 0 || holds != confirmed)
#endif
#ifdef NO_STEADY
#define HAS_PROOF (fresh[A] && steady != NEVER)
#else
#define HAS_PROOF (fresh[A] && steady != NEVER && steady >= STEADY)
#endif
#ifdef NO_PROOF
#define IS_VOID false
#else
#define IS_VOID (lease[A] == 0 || holds != proof)
#endif
#ifdef NO_AGE
#define IS_OLD false
#else
#define IS_OLD (now > proof_of + PROOF)
#endif

proctype DaemonA() {
end:
  do
  :: d_step { up && !beaten[A] ->
       printf("tick %d: A beats\n", ticks);
       steady = (steady == NEVER || !fresh[A] || AFTER_GAP || AFTER_LOSS -> 0 : steady);
       sent++; holds = sent; confirmed = sent; heard = now;
       lease[A] = LEASE; fresh[A] = FRESH; silent[A] = 0; beaten[A] = 1 }
  :: d_step { up && !beaten[A] ->
       printf("tick %d: A beats, and the reply is lost\n", ticks);
       steady = NEVER;
       sent++; holds = sent;
       lease[A] = LEASE; silent[A] = 0; beaten[A] = 1 }
  :: d_step { !up && steady != NEVER ->
       printf("tick %d: A cannot beat\n", ticks);
       steady = NEVER }
  :: d_step { !asks && !gone && HAS_PROOF ->
       asks = 1; proof = confirmed; proof_of = heard;
       printf("tick %d: A asks to declare B dead, with the proof that beat %d was the last\n", ticks, proof) }
  od
}

proctype DaemonB() {
end:
  do
  :: d_step { up && !beaten[B] && !gone ->
       printf("tick %d: B beats\n", ticks);
       lease[B] = LEASE; fresh[B] = FRESH; silent[B] = 0; beaten[B] = 1 }
  od
}

#define LESS(left, by) (left > by -> left - by : 0)
/* A daemon beats in each tick, but for its time of silence, and while the server is away. */
#define MAY_PASS(d) (beaten[d] || !up || silent[d] || may_be_silent[d])

inline pass(d) {
  may_be_silent[d] = may_be_silent[d] && (beaten[d] || !up);
  silent[d] = (up && !beaten[d] && silent[d] < FRESH -> silent[d] + 1 : silent[d]);
  lease[d] = LESS(lease[d], 1); old_lease[d] = LESS(old_lease[d], 1); fresh[d] = LESS(fresh[d], 1); beaten[d] = 0
}

proctype Server() {
end:
  do
  :: d_step { ticks < TICKS && !gone && MAY_PASS(A) && MAY_PASS(B) ->
       pass(A); pass(B);
       steady = (steady < STEADY -> steady + 1 : steady); now++; ticks++ }
  :: d_step { up && asks ->
       if
       :: IS_VOID -> printf("tick %d: server: the proof of A is void\n", ticks)
       :: !IS_VOID && IS_OLD -> printf("tick %d: server: the proof of A is too old\n", ticks)
       :: !IS_VOID && !IS_OLD && lease[B] > 0 -> printf("tick %d: server: B has a lease\n", ticks)
       :: !IS_VOID && !IS_OLD && lease[B] == 0 ->
          gone = 1;
          printf("tick %d: server: B is declared dead\n", ticks)
       fi;
       asks = 0; proof = 0; proof_of = 0 }
  :: d_step { up && may_be_away ->
       may_be_away = 0; up = 0;
       printf("tick %d: the server is away\n", ticks) }
  :: d_step { !up ->
       up = 1;
       printf("tick %d: the server is back\n", ticks) }
  :: d_step { up && may_lose ->
       may_lose = 0; has_old = 1; old_lease[A] = lease[A]; old_lease[B] = lease[B]; old_holds = holds }
  :: d_step { !up && has_old ->
       up = 1; has_old = 0; lease[A] = old_lease[A]; lease[B] = old_lease[B]; holds = old_holds;
       printf("tick %d: the server is back, without its last writes\n", ticks) }
  :: d_step { up && may_be_set ->
       may_be_set = 0; now = now + STEP;
       lease[A] = LESS(lease[A], STEP); lease[B] = LESS(lease[B], STEP);
       old_lease[A] = LESS(old_lease[A], STEP); old_lease[B] = LESS(old_lease[B], STEP);
       printf("tick %d: the server's clock is set forward\n", ticks) }
  od
}

proctype Judge() {
end:
  do
  :: d_step { gone && fresh[B] -> WRONG("a daemon that may trust its lease was declared dead") }
  :: d_step { gone && silent[B] < FRESH -> WRONG("a daemon that has beaten whenever it could was declared dead") }
  od
}

init {
  atomic {
    /* Not both. A daemon that was silent for nearly a lease is rightly dead by the account of a server that has lost the
       one beat after that. */
    if
    :: may_lose = 1
    :: may_be_silent[A] = 1; may_be_silent[B] = 1
    fi;
    run DaemonA(); run DaemonB(); run Server(); run Judge()
  }
}
