import { randomUUID } from 'node:crypto'
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { workflowDefinition } from '../../src/contract/definition.ts'
import { changeWorkflow } from '../../src/governance/workflows/workflows.ts'
import { rerun } from '../../src/governance/runs/start/rerun.ts'
import { byDepth } from '../support/depth.ts'
import { read, useTestStack, type Stack } from './worker-fixture.ts'

/*
 * The law of running again: a mail that a run of the chain has sent is not sent once more, unless a person says so. The
 * graphs, the step that fails, the edits between the runs and the point from which a run begins are random.
 */

let stack: Stack
useTestStack((each) => (stack = each))

interface Step {
  readonly mails: boolean
  /** Places of earlier steps. */
  readonly after: readonly number[]
  readonly item: boolean
}

/** The mails of a step differ by its `word` only, so the same word is the same call. */
interface Drawn {
  readonly steps: readonly Step[]
  readonly edits: readonly {
    readonly from: 'failed' | 'start' | number
    readonly fails: number
    readonly renamed: number
    readonly reworded: number | null
  }[]
}

const drawn: fc.Arbitrary<Drawn> = fc.integer({ min: 2, max: 6 }).chain((count) =>
  fc.record({
    steps: fc.tuple(
      ...Array.from({ length: count }, (_, place) =>
        fc.record({
          mails: fc.boolean(),
          item: fc.boolean(),
          after: fc.subarray(Array.from({ length: place }, (_none, each) => each)),
        }),
      ),
    ),
    edits: fc.array(
      fc.record({
        from: fc.oneof(fc.constantFrom('failed' as const, 'start' as const), fc.nat(count - 1)),
        fails: fc.nat(count),
        renamed: fc.nat(count),
        reworded: fc.option(fc.nat(count - 1)),
      }),
      { minLength: 2, maxLength: 4 },
    ),
  }),
)

test('whatever the graph, the failures, the edits and the versions are', async () => {
  await fc.assert(
    fc.asyncProperty(drawn, async ({ steps, edits }) => {
      const to = `${randomUUID()}@law.test`
      const names = steps.map((_, place) => `s${place}`)
      const words = [...names]
      const definitionOf = (fails: number) => ({
        steps: steps.map(({ mails, after, item }, place) => ({
          ...(mails
            ? {
                id: names[place],
                tool: 'mail_send',
                // The day and the run are not what makes a mail another one.
                params: {
                  to,
                  subject: `${words[place]}${item ? ' {{item}}' : ''}`,
                  text: '{{now}} {{run.id}}',
                },
              }
            : read(names[place] ?? '', place === fails ? `fail ${words[place]}` : (words[place] ?? ''))),
          ...(item ? { for_each: ['x', 'y'] } : {}),
          depends_on: after.map((each) => names[each]),
        })),
      })
      let runId = await stack.run(definitionOf(edits[0]?.fails ?? 0))
      await stack.ended(runId)
      for (const [at, { from, fails, renamed, reworded }] of edits.entries()) {
        if (renamed < names.length) names[renamed] = `${names[renamed]}n${at}`
        if (reworded !== null) words[reworded] = `${words[reworded]}w${at}`
        const { workflow_id: workflowId } = await stack.runOf(runId)
        const definition = workflowDefinition.parse(definitionOf(fails))
        await changeWorkflow(stack.context, stack.caller('member'), workflowId, { definition })
        const request = {
          caller: stack.caller('member'),
          runId,
          from: typeof from === 'number' ? [names[from] ?? ''] : from,
          version: 'latest',
          inputs: {},
          onRepeat: 'skip',
          unknownHappened: null,
        } as const
        runId = (await rerun(stack.context, request)).runId
        await stack.ended(runId)
      }
      const sent = stack.sink.deliveries.filter(({ recipients }) => recipients.includes(to))
      const subjects = sent.map(({ subject }) => subject)
      expect(subjects.toSorted()).toEqual([...new Set(subjects)].toSorted())
    }),
    { numRuns: byDepth(6, 60), endOnFailure: true },
  )
})
