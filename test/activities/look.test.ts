import { describe, expect, test } from '@jest/globals'
import { patienceWith, readFound, readLookError, type Looked } from '../../src/activities/look.ts'
import { ToolError, type Found } from '../../src/activities/tools/executor.ts'
import { getTool } from '../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../src/catalog/tool.ts'
import { mostAttempts } from '../../src/contract/status.ts'

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
