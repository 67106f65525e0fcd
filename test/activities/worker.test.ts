import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { ApplicationFailure } from '@temporalio/common'
import { ActingAccount, Leaving } from '../../src/activities/leaving.ts'
import { type CallTurn, CallTurns } from '../../src/activities/call-turns.ts'
import { maxOutputLength, refusalOfSize } from '../../src/activities/attempt.ts'
import { type Looked, patienceWith, readFound, readLookError } from '../../src/activities/look.ts'
import { type Found, OtherAccount, ToolError } from '../../src/tools/kit/executor.ts'
import { callSlots } from '../../src/governance/limits/shares.ts'
import { ThreadUse } from '../../src/governance/limits/thread-use.ts'
import { getTool } from '../../src/tools/index.ts'
import type { ToolDeclaration } from '../../src/tools/kit/tool.ts'
import { mostAttempts } from '../../src/contract/status.ts'
import { mostHeapBytes, mostValues } from '../../src/shared/json-size.ts'

const never = new AbortController().signal
const settled = () => new Promise((resolve) => setImmediate(resolve))
const pass = async (milliseconds: number): Promise<void> => {
  jest.advanceTimersByTime(milliseconds)
  await settled()
}
const leave = async (turn: CallTurn | undefined): Promise<void> => {
  turn?.leave()
  await settled()
}

/**
 * Returns a function that lets `count` calls ask for a turn. `inside` gets the turns, and `failures` the errors of the
 * other calls.
 */
function callsFor(turns: CallTurns) {
  return function calls(organizationId: string, count: number, signal = never, isQuick = false) {
    const inside: CallTurn[] = []
    const failures: ApplicationFailure[] = []
    for (let n = 0; n < count; n += 1)
      turns.enter(organizationId, signal, isQuick).then(
        (turn) => inside.push(turn),
        (error: ApplicationFailure) => failures.push(error),
      )
    return { inside, failures }
  }
}

describe('turns of calls', () => {
  let calls: ReturnType<typeof callsFor>
  let isBusy = false
  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'queueMicrotask', 'nextTick'] })
    isBusy = false
    calls = callsFor(
      new CallTurns(new ThreadUse(() => performance.now(), { isBusy: () => isBusy, strain: () => 1 })),
    )
  })
  afterEach(() => {
    jest.useRealTimers()
  })

  test('one organization gets 100 of the 120 slots, and two beside another organization', async () => {
    const first = calls('a', 130)
    await settled()
    expect([callSlots, first.inside.length]).toEqual([120, 100])
    const other = calls('b', 5)
    await settled()
    expect(other.inside).toHaveLength(2)
    // The first organization gets no further turn while more than one of its calls is at work.
    for (const turn of first.inside.slice(0, 98)) turn.leave()
    await settled()
    expect(first.inside).toHaveLength(100)
    await leave(first.inside[98])
    expect(first.inside).toHaveLength(101)
    await leave(other.inside[0])
    expect(other.inside).toHaveLength(3)
  })

  test('a quick call gives up after a tenth of a second, and is an ordinary activity then', async () => {
    const other = calls('b', 1)
    const first = calls('a', 4, never, true)
    await settled()
    expect([other.inside.length, first.inside.length, first.failures.length]).toEqual([1, 2, 0])
    await pass(101)
    expect(first.failures.map(({ nextRetryDelay }) => nextRetryDelay)).toEqual([0, 0])
    await leave(first.inside[0])
    expect(first.inside).toHaveLength(2)
  })

  test('the share is whole again ten seconds after the other organization’s last call', async () => {
    const other = calls('b', 1)
    await settled()
    other.inside[0]?.leave()
    const first = calls('a', 4)
    await settled()
    expect(first.inside).toHaveLength(2)
    jest.advanceTimersByTime(10_001)
    const later = calls('a', 1)
    await settled()
    expect([first.inside.length, later.inside.length]).toEqual([4, 1])
  })

  describe('on a busy thread', () => {
    beforeEach(() => {
      isBusy = true
    })
    /** The organization uses turns for this many milliseconds. */
    const use = async (organizationId: string, milliseconds: number): Promise<void> => {
      const [turn] = await called(organizationId, 1)
      jest.advanceTimersByTime(milliseconds)
      turn?.leave()
    }
    const called = async (organizationId: string, count: number) => {
      const { inside } = calls(organizationId, count)
      await settled()
      return inside
    }

    test('a turn rests for eight times its call, if the organization uses more than its part', async () => {
      await use('b', 1)
      const inside = await called('a', 3)
      jest.advanceTimersByTime(50)
      inside[0]?.leave()
      await pass(399)
      expect(inside).toHaveLength(2)
      await pass(1)
      expect(inside).toHaveLength(3)
    })

    test('quick calls without a turn come again later, the more of them wait and the longer their turns rest', async () => {
      await use('b', 1)
      const delays = async (count: number): Promise<number[]> => {
        const { failures } = calls('a', count, never, true)
        await settled()
        await pass(101)
        return failures.map(({ nextRetryDelay }) => Number(nextRetryDelay))
      }
      const inside = await called('a', 2)
      jest.advanceTimersByTime(50)
      await use('b', 1)
      for (const turn of inside) turn.leave()
      await pass(450)
      // Both turns were taken for about 450 ms. Each counts for a fifth, so a call takes a turn for about 162 ms.
      await called('a', 2)
      const [first, ...others] = await delays(10)
      expect(Math.abs(Number(first) - (10 * 162) / 2 / 2)).toBeLessThan(20)
      expect([...others, 0]).toEqual([...others, 0].toSorted((a, b) => b - a))
      expect(await delays(100)).toContain(2_000)
    })

    test('a turn rests for a second at most', async () => {
      await use('b', 1)
      const inside = await called('a', 3)
      jest.advanceTimersByTime(1_900)
      inside[0]?.leave()
      const rests = await called('b', 1)
      await pass(999)
      expect([rests.length, inside.length]).toEqual([1, 2])
      await pass(1)
      expect(inside).toHaveLength(3)
    })

    test('a pause ends once the thread is idle', async () => {
      await use('b', 1)
      const inside = await called('a', 3)
      jest.advanceTimersByTime(90)
      inside[0]?.leave()
      isBusy = false
      await pass(50)
      expect(inside).toHaveLength(3)
    })

    test('nobody pauses for an organization that was not served in two seconds', async () => {
      await use('b', 1)
      jest.advanceTimersByTime(2_000)
      const inside = await called('a', 3)
      jest.advanceTimersByTime(50)
      await leave(inside[0])
      expect(inside).toHaveLength(3)
    })

    test('a call with a long body takes no rest, because it only waited for something outside', async () => {
      await use('b', 1)
      const inside = await called('a', 3)
      inside[0]?.bodyBegins()
      await pass(1_000)
      expect(inside).toHaveLength(3)
      inside[0]?.leave()
      inside[1]?.leave()
      const later = await called('a', 1)
      expect(later).toHaveLength(0)
    })

    test.each([
      ['alone', () => undefined],
      ['on an idle thread', () => use('b', 1).then(() => void (isBusy = false))],
      ['an organization that uses less than its part', () => use('b', 5_000)],
    ])('%s: a turn does not rest', async (_, before) => {
      await before()
      const inside = await called('a', 101)
      const first = inside.length
      jest.advanceTimersByTime(50)
      await leave(inside[0])
      expect(inside).toHaveLength(first + 1)
    })
  })

  test('while no slot becomes free, waiting calls of the longest line give theirs back, the latest first', async () => {
    const first = calls('a', 115)
    const other = calls('b', 4)
    await settled()
    await pass(1_000)
    expect([first.failures, other.failures]).toEqual([[], []])
    const last = calls('a', 1)
    await settled()
    await pass(99)
    expect(last.failures).toEqual([])
    await pass(1)
    expect(last.failures).toMatchObject([{ type: 'Unavailable', category: 'BENIGN' }])
    expect(last.failures[0]?.nextRetryDelay).toBeGreaterThanOrEqual(2_500)
    // Now a slot is free.
    await pass(10_000)
    expect([first.failures, other.failures]).toEqual([[], []])
  })

  test('no call gives its slot back while slots become free in time', async () => {
    const first = calls('a', 120)
    await settled()
    for (let n = 0; n < 10; n += 1) {
      jest.advanceTimersByTime(99)
      first.inside[n]?.leave()
      const next = calls('a', 1)
      await settled()
      expect([...first.failures, ...next.failures]).toEqual([])
    }
    expect(first.inside).toHaveLength(110)
  })

  test('a cancelled call leaves the line', async () => {
    calls('b', 1)
    const first = calls('a', 2)
    const controller = new AbortController()
    const cancelled = calls('a', 1, controller.signal)
    const next = calls('a', 1)
    await settled()
    controller.abort(new Error('CANCELLED'))
    await settled()
    expect(cancelled.failures).toMatchObject([{ message: 'CANCELLED' }])
    await leave(first.inside[0])
    expect([cancelled.inside.length, next.inside.length]).toEqual([0, 1])
  })
  test('long bodies of many organizations leave slots for others', async () => {
    calls('honest', 1)
    await settled()
    let taken = 0
    for (let n = 0; n < 8; n += 1) taken += (await hang(`hanging ${n}`)).length
    // The calls of the last organizations stay at work, and do not count as `outside`.
    expect(taken).toBeLessThan(callSlots)
  })

  test('a long body that found no free slot leaves the calls at work once a slot is free', async () => {
    const others = Array.from({ length: 59 }, (_, n) => calls(`other ${n}`, 2).inside)
    const mine = calls('a', 2).inside
    await settled()
    for (const turn of mine) turn.bodyBegins()
    jest.advanceTimersByTime(100)
    const next = calls('a', 2).inside
    await settled()
    expect(next).toHaveLength(0)
    for (const turn of others.flat()) turn.leave()
    await settled()
    expect(next).toHaveLength(2)
  })

  test('a body that takes long makes room for the next call; a short one does not', async () => {
    calls('b', 1)
    const first = calls('a', 3)
    await settled()
    first.inside[0]?.bodyBegins()
    await pass(99)
    expect(first.inside).toHaveLength(2)
    await pass(1)
    expect(first.inside).toHaveLength(3)
    // A call that leaves its turn twice frees one turn.
    const [turn] = first.inside
    turn?.leave()
    turn?.leave()
    calls('a', 1)
    await settled()
    expect(first.inside).toHaveLength(3)
  })

  test('long bodies of one organization take about half of the slots, also while others wait', async () => {
    calls('honest', 1)
    const { length } = await hang('a')
    expect([length > 55, length < 65]).toEqual([true, true])
  })

  test('a long body that has ended leaves room for others', async () => {
    calls('b', 1)
    for (let n = 0; n < 101; n += 1) {
      const { inside } = calls('a', 1)
      await settled()
      inside[0]?.bodyBegins()
      jest.advanceTimersByTime(100)
      await leave(inside[0])
    }
    expect((await hang('a')).length).toBeGreaterThan(2)
  })

  test('calls that were cancelled while they waited occupy no slot', async () => {
    calls('b', 1)
    const controller = new AbortController()
    const first = calls('a', 2)
    const cancelled = calls('a', 117, controller.signal)
    await settled()
    controller.abort(new Error('CANCELLED'))
    const next = calls('a', 10)
    await settled()
    await pass(1_000)
    expect([first.inside.length, cancelled.failures.length, next.failures.length]).toEqual([2, 117, 0])
  })

  test('several organizations with long bodies never take all slots', async () => {
    calls('honest', 1)
    const inside = (await Promise.all(['a', 'b', 'c', 'd'].map(hang))).flat()
    expect(inside.length).toBeLessThan(callSlots - 15)
  })

  /** Starts calls whose bodies never end, until no further call gets a turn. */
  async function hang(organizationId: string): Promise<CallTurn[]> {
    const { inside } = calls(organizationId, 100)
    let begun = 0
    for (;;) {
      await settled()
      if (begun === inside.length) return inside
      for (const turn of inside.slice(begun)) turn.bodyBegins()
      begun = inside.length
      jest.advanceTimersByTime(100)
    }
  }
})

test.each([
  { what: 'is made for the first time', earlier: null, looks: false, name: 'a', isTaken: true },
  { what: 'is made again', earlier: 'a', looks: false, name: 'a', isTaken: true },
  { what: 'is made again with another account', earlier: 'a', looks: false, name: 'b', isTaken: false },
  { what: 'is looked for', earlier: 'a', looks: true, name: 'a', isTaken: true },
  { what: 'is looked for with another account', earlier: 'a', looks: true, name: 'b', isTaken: false },
  { what: 'is looked for after an unknown account', earlier: null, looks: true, name: 'a', isTaken: false },
])('a call that $what: $isTaken', ({ earlier, looks, name, isTaken }) => {
  const account = new ActingAccount(earlier)
  const take = (): void => account.take(name, looks)
  if (isTaken) take()
  else expect(take).toThrow(OtherAccount)
  expect(account.name).toBe(isTaken ? name : null)
})

test('one call never acts with two accounts', () => {
  const account = new ActingAccount(null)
  account.take('a', false)
  account.take('a', true)
  expect(() => account.take('b', false)).toThrow(OtherAccount)
})

describe('a request that leaves late', () => {
  let now = 0
  /** How much further the wall clock has run than the steady clock, in milliseconds. */
  let suspended = 0
  beforeEach(() => {
    now = 1_000
    suspended = 0
    jest.spyOn(performance, 'now').mockImplementation(() => now)
    jest.spyOn(Date, 'now').mockImplementation(() => now + suspended)
  })
  afterEach(() => void jest.restoreAllMocks())

  const stalled = expect.objectContaining({ code: 'stalled', retryable: true })
  const begun = (mayBeMadeElsewhere = true): Leaving => {
    const leaving = new Leaving()
    leaving.begin({ steady: 0, wall: 0 }, mayBeMadeElsewhere)
    return leaving
  }

  test('a request leaves within ten seconds of asking for the point of no return', () => {
    const leaving = begun()
    now = 10_000
    leaving.requireFresh()
    now = 10_001
    expect(() => begun()).toThrow(stalled)
  })

  test('nothing leaves after the machine was suspended, while the steady clock stood still', () => {
    const leaving = begun()
    suspended = 60_000
    expect(() => leaving.requireFresh()).toThrow(stalled)
  })

  test('a wall clock that was set back gives no more time', () => {
    const leaving = begun()
    now = 10_001
    suspended = -60_000
    expect(() => leaving.requireFresh()).toThrow(stalled)
  })

  test('a later request of the same call may follow the longest request', () => {
    const leaving = begun()
    leaving.requireFresh()
    now = 50_000
    leaving.requireFresh()
    now = 90_001
    expect(() => leaving.requireFresh()).toThrow(stalled)
  })

  test('a call that no other attempt looks for has time', () => {
    const leaving = begun(false)
    now = 1_000_000
    leaving.requireFresh()
  })

  test('no request with an effect leaves before the point of no return', () => {
    expect(() => new Leaving().requireFresh()).toThrow('before the point of no return')
  })
})

const tool: ToolDeclaration = {
  ...(getTool('github_comment') as ToolDeclaration),
  repeat: 'findable',
  findableAfterSeconds: 60,
}
const error = (retryable: boolean, retryAfterSeconds?: number) =>
  new ToolError('e', 'm', { retryable, retryAfterSeconds: retryAfterSeconds ?? null })
const done = { kind: 'done', output: 1 } as const
const absent = { kind: 'absent' } as const
const later = (seconds: number): Looked => ({ kind: 'later', seconds })
const unknown = { kind: 'unknown' } as const

function read(said: Found | ToolError, ago: number, of = tool, isKeyed = false): Looked {
  const patience = patienceWith(of, isKeyed)
  return said instanceof ToolError ? readLookError(said, patience, ago) : readFound(said, patience, ago)
}

describe('what a look says, by the seconds since the call was sent', () => {
  const rows: readonly (readonly [Found | ToolError, number, Looked])[] = [
    [done, 0, done],
    [done, 10_000, done],
    [absent, 0, later(60)],
    [absent, 59, later(1)],
    [absent, 60, absent],
    [absent, 10_000, absent],
    [{ kind: 'unclear' }, 0, later(15)],
    [{ kind: 'unclear' }, 901, unknown],
    [error(true), 0, later(15)],
    [error(true, 100), 0, later(100)],
    [error(true), 901, unknown],
    [error(false), 0, unknown],
  ]
  test.each(rows)('%j after %i s', (said, ago, expected) => {
    expect(read(said, ago)).toEqual(expected)
  })

  test('an unexpected error asks a person', () => {
    expect(readLookError(new Error('crash'), patienceWith(tool, false), 0)).toEqual(unknown)
  })
})

describe('what an answer to a call that is sent again with its key says', () => {
  const mail = getTool('mail_send') as ToolDeclaration
  const day = 23 * 3_600
  const rows: readonly (readonly [Found | ToolError, number, Looked])[] = [
    [done, 10_000, done],
    [absent, 0, absent],
    [{ kind: 'unclear' }, 0, later(15)],
    [{ kind: 'unclear' }, 100, later(50)],
    [{ kind: 'unclear' }, day, later(1_800)],
    [{ kind: 'unclear' }, day + 1, unknown],
    [error(true, 100), 0, later(100)],
    [error(false), 0, unknown],
  ]
  test.each(rows)('%j after %i s', (said, ago, expected) => {
    expect(read(said, ago, mail, true)).toEqual(expected)
  })

  test('a service that does not answer for a day uses up fewer attempts than a call has', () => {
    let [ago, attempts] = [0, 1]
    for (let said = read({ kind: 'unclear' }, ago, mail, true); said.kind === 'later'; attempts += 1) {
      ago += said.seconds
      said = read({ kind: 'unclear' }, ago, mail, true)
    }
    expect(ago).toBeGreaterThan(day)
    expect(attempts).toBeLessThan(mostAttempts)
  })
})

describe('the size of an output', () => {
  const mebibyte = 1024 ** 2
  const refusalOf = (output: string): string | null => {
    const refusal = refusalOfSize(output)
    if (refusal === null) return null
    expect(refusal.result).toMatchObject({ state: 'failed', error: { code: 'output_too_large' } })
    return (refusal.result as { error: { message: string } }).error.message
  }
  /** JSON of a long text and 190,000 numbers. */
  const outputOf = (first: string): string =>
    `["${first}${'x'.repeat(26 * mebibyte)}"${',0'.repeat(190_000)}]`

  test('an output is refused by its bytes in memory, which are two for each character beyond Latin', () => {
    expect(refusalOf(outputOf('a'))).toBe(null)
    const tooLarge = outputOf('\u0100')
    expect(tooLarge.length).toBeLessThan(maxOutputLength)
    expect(refusalOf(tooLarge)).toContain(`more than ${mostHeapBytes / mebibyte} MiB in memory`)
  })

  test('an output is refused by its values, also if they are small', () => {
    const values = (count: number): string => `[${'0,'.repeat(count - 2)}0]`
    expect(refusalOf(values(mostValues))).toBe(null)
    expect(refusalOf(values(mostValues + 1))).toContain(`more than ${mostValues} values`)
  })

  test('an output is refused by its characters', () => {
    expect(refusalOf(`"${'x'.repeat(maxOutputLength - 2)}"`)).toBe(null)
    expect(refusalOf(`"${'x'.repeat(maxOutputLength - 1)}"`)).toBe('the output is larger than 32 MiB')
  })
})
