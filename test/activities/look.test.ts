import { describe, expect, test } from '@jest/globals'
import { readFound, readLookError, type Looked } from '../../src/activities/look.ts'
import { ToolError, type Found } from '../../src/activities/tools/executor.ts'
import { getTool } from '../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../src/catalog/tool.ts'

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
    const looked = said instanceof ToolError ? readLookError(said, ago) : readFound(said, tool, ago)
    expect(looked).toEqual(expected)
  })

  test('an unexpected error asks a person', () => {
    expect(readLookError(new Error('crash'), 0)).toEqual(unknown)
  })
})
