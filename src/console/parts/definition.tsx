import type { ComponentChild } from 'preact'
import type { AnswerOf } from '../../api/routes/index.ts'
import { dependencies } from '../../contract/definition-graph.ts'
import type { Layouts } from '../graph.ts'
import { Picture, type DrawnStep } from './picture.tsx'
import { Badge, type Tone } from './state.tsx'
import { Values } from './values.tsx'
import { Message, Words } from './words.tsx'

/* The steps of a definition, as a picture and in words. */

export type Definition = AnswerOf<'GET /workflows/{id}'>['definition']
export type Preview = AnswerOf<'POST /workflows/{id}/authorization-preview'>
type PreviewedStep = Preview['steps'][number]
type Step = Definition['steps'][number]

const kinds = ['tool', 'compute', 'wait', 'ask'] as const

/** The tool, or what it does without one. */
export const whatOf = (step: Step): string =>
  step.tool ?? kinds.find((kind) => step[kind] !== undefined) ?? 'step'

/** `each` and `if` are words of the definition. */
const conditionsOf = ({ for_each, when }: Step): string =>
  [for_each === undefined ? '' : ' · for each', when === undefined ? '' : ' · if'].join('')

type Verdict = readonly [Tone, string]

/** What would be decided about the step, in two words. */
export function verdictOf(step: PreviewedStep | undefined): Verdict | null {
  if (step === undefined) return null
  if (step.runs === 'never') return ['off', 'Never runs']
  if (!step.available) return ['bad', 'Would fail']
  const isSure = step.certainty === 'definite'
  if (step.verdict === 'deny') return ['bad', isSure ? 'Denied' : 'May be denied']
  if (step.verdict === 'require_approval') return ['hold', isSure ? 'Held' : 'May be held']
  if (step.kind !== 'tool') return step.waits === null ? null : ['wait', 'Waits']
  return ['good', 'Allowed']
}

const badgeOf = (verdict: Verdict | null): ComponentChild =>
  verdict === null ? null : <Badge tone={verdict[0]} word={verdict[1]} />

export function DefinitionPicture(props: {
  readonly layouts: Layouts
  readonly definition: Pick<Definition, 'steps'>
  readonly preview?: Preview | null
}) {
  const { layouts, definition, preview } = props
  const needed = dependencies(definition)
  const byId = new Map(preview?.steps.map((step) => [step.step_id, step]))
  const steps = definition.steps.map((step): DrawnStep => {
    const verdict = verdictOf(byId.get(step.id))
    return {
      id: step.id,
      depends_on: needed.get(step.id) ?? [],
      what: whatOf(step) + conditionsOf(step),
      tone: verdict?.[0] ?? 'off',
      badge: badgeOf(verdict),
      hasEnded: true,
      address: `#step-${encodeURIComponent(step.id)}`,
    }
  })
  // Drafts have no version, but equal edges have the same places.
  const version = JSON.stringify(steps.map(({ id, depends_on }) => [id, depends_on]))
  return <Picture layouts={layouts} version={version} steps={steps} />
}

const mostListed = 200

/** The picture in words, with what would be decided about each step. */
export function StepsInWords(props: {
  readonly definition: Definition
  readonly preview?: Preview | null
  readonly beside?: (step: PreviewedStep | undefined) => ComponentChild
}) {
  const { definition, preview, beside } = props
  const needed = dependencies(definition)
  const byId = new Map(preview?.steps.map((step) => [step.step_id, step]))
  return (
    <>
      <ol class="rows">
        {definition.steps.slice(0, mostListed).map((step) => (
          <li class="row" id={`step-${encodeURIComponent(step.id)}`}>
            <p class="split">
              <strong>
                <Words text={step.id} most={100} />
              </strong>
              {badgeOf(verdictOf(byId.get(step.id)))}
            </p>
            {step.summary === undefined || step.summary === '' ? null : (
              <p class="small">
                <Words text={step.summary} most={500} />
              </p>
            )}
            <div class="meta">
              <code>
                <Words text={whatOf(step)} most={100} />
              </code>
              {step.for_each === undefined ? null : <span>for each item of a list</span>}
              {step.when === undefined ? null : <span>only under a condition</span>}
              <AfterAll needed={needed.get(step.id) ?? []} />
            </div>
            <Why step={byId.get(step.id)} />
            <Resolved step={byId.get(step.id)} isConditional={step.when !== undefined} />
            {beside?.(byId.get(step.id))}
          </li>
        ))}
      </ol>
      {definition.steps.length > mostListed ? (
        <p class="quiet">{`and ${(definition.steps.length - mostListed).toLocaleString('en')} more steps`}</p>
      ) : null}
    </>
  )
}

const mostNamed = 8

const AfterAll = ({ needed }: { needed: readonly string[] }) =>
  needed.length === 0 ? null : (
    <span>
      after <Words text={needed.slice(0, mostNamed).join(', ')} most={400} />
      {needed.length > mostNamed ? ` and ${needed.length - mostNamed} more` : null}
    </span>
  )

/** In whole sentences. */
function Why({ step }: { step: PreviewedStep | undefined }) {
  if (step === undefined || step.runs === 'never') return null
  const [rule] =
    step.frozen !== null ? [] : step.rules.filter(({ verdict, shadow }) => verdict !== 'allow' && !shadow)
  const said = [
    rule === undefined ? null : `the rule \`${rule.name}\` decides: ${rule.because}`,
    step.role_policy?.explanation ?? null,
    step.frozen,
    step.available ? null : step.unavailable_because,
    step.waits === null ? null : `it waits for ${step.waits}`,
  ]
  return said.map((each) =>
    each === null ? null : (
      <p class="small">
        <Message text={each} most={600} />
      </p>
    ),
  )
}

/** Whether its condition holds, and what it would call, as far as inputs and assumed outputs say it. */
function Resolved({ step, isConditional }: { step: PreviewedStep | undefined; isConditional: boolean }) {
  const resolved = step?.resolved ?? null
  if (step === undefined || resolved === null) return null
  const { condition, calls, left_out: hidden } = resolved
  const count = calls.length + hidden
  return (
    <>
      {isConditional || condition === false ? <p class="small">{conditionWords(condition)}</p> : null}
      {step.tool === null || calls.length === 0 ? null : (
        <details>
          <summary class="small">
            {count === 1 ? 'With these parameters' : `${count.toLocaleString('en')} calls`}
          </summary>
          {calls.map((params) => (
            <Values values={params} />
          ))}
          {hidden > 0 ? <p class="quiet">{`and ${hidden.toLocaleString('en')} more calls`}</p> : null}
        </details>
      )}
    </>
  )
}

const conditionWords = (condition: boolean | null): string =>
  condition === null
    ? 'Whether its condition holds depends on what is not known.'
    : condition
      ? 'Its condition holds.'
      : 'It does not run.'
