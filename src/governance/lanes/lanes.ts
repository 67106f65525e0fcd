/*
 * The one queue. A lane is the right to work, one turn after another, on what waits for one receiver. Rows of the domain
 * say what waits, and keep the marks of intent: they make sure that a second turn sends nothing twice.
 */

interface LaneKindFacts {
  /** A process takes so many at once; at most half of these places are for lanes that failed or were slow. */
  readonly atOnce: number
  /** For one organization, in all processes together. null: the kind has one lane for each, or limits of its own. */
  readonly ofOrganization: number | null
  /** A turn renews its lease. So this is how long the lanes of a dead process wait. */
  readonly leaseSeconds: number
  /** The next take waits for the turns of the last one: fewer statements, for lanes that become due in quick succession. */
  readonly inBatches: boolean
  /** The pauses after turns that failed in a row: the first, then twice as long each time. */
  readonly pause: Pauses
}

/** docs/operations.md describes each kind. */
export const laneKinds = {
  /** A message to Temporal. It leaves the table when it is delivered. */
  temporal: {
    atOnce: 50,
    ofOrganization: null,
    leaseSeconds: 10,
    inBatches: true,
    pause: { first: 0.5, most: 30 },
  },
  /** An organization. Sending takes less than the lease: what a dead process has sent is there for the next turn. */
  slack: {
    atOnce: 50,
    ofOrganization: null,
    leaseSeconds: 45,
    inBatches: false,
    pause: { first: 10, most: 600 },
  },
  /** An organization. */
  mail: {
    atOnce: 4,
    ofOrganization: null,
    leaseSeconds: 60,
    inBatches: false,
    pause: { first: 10, most: 600 },
  },
  /** A webhook. */
  webhook: {
    atOnce: 40,
    ofOrganization: 3,
    leaseSeconds: 50,
    inBatches: false,
    pause: { first: 5, most: 600 },
  },
  /** A trigger. Its rows say what has fired, so a second turn starts nothing twice. */
  trigger: {
    atOnce: 40,
    ofOrganization: 20,
    leaseSeconds: 10,
    inBatches: true,
    pause: { first: 2, most: 300 },
  },
  /** A request to make many runs again. */
  rerun: {
    atOnce: 10,
    ofOrganization: 2,
    leaseSeconds: 20,
    inBatches: false,
    pause: { first: 2, most: 300 },
  },
  /** A recurring task. */
  clock: {
    atOnce: 40,
    ofOrganization: null,
    leaseSeconds: 10,
    inBatches: false,
    pause: { first: 1, most: 10 },
  },
} as const satisfies Record<string, LaneKindFacts>

export type LaneKind = keyof typeof laneKinds

/** Seconds between the rounds of the recurring tasks. One process does a round, for all. */
export const clock = {
  /** RECONCILE_SECONDS, if it is set. */
  reconcile: 10,
  expiry: 1,
  'ending cancelled runs': 1,
  'planning messages': 1,
  'writing deliveries to webhooks': 1,
  'gathering changes of stored sizes': 2,
  'recording account events': 10,
  'counting audit entries': 10,
  'removing secrets of revoked connections': 30,
  'counting stored sizes': 60,
  'naming what waits longest': 60,
  'removing old deliveries of webhooks': 300,
  'removing old firings of triggers': 300,
  prune: 600,
  retention: 600,
  'removing old reruns': 3_600,
  'forgetting old keys and sign-ins': 3_600,
} as const

export type ClockTask = keyof typeof clock

/** Seconds. */
export interface Pauses {
  readonly first: number
  readonly most: number
}

/** Doubles with each failure in a row. `failures` is at least 1. */
export const pauseAfter = (failures: number, { first, most }: Pauses): number =>
  Math.min(first * 2 ** Math.min(failures - 1, 30), most)

/** Seconds until the next try of one message to a webhook, after its first failure and so on. The last number repeats. */
export const messagePauses = [5, 30, 120, 600, 1_800, 3_600]

/** Seconds until the next try of one mail. */
export const mailPause = 60
