import { toolPath } from '../../contract/pages.ts'
import type { Json, JsonObject } from '../../policy/types.ts'
import { organizationId, type Form, type PersonsVisit, type Problem, type Result } from '../visit.ts'
import type { Preview } from './definition.tsx'
import { onceOf } from './form.tsx'
import { Tried, type Trial } from './tool-try.tsx'
import { Values } from './values.tsx'
import { Words } from './words.tsx'

/*
 * A step of the editor's text is tried as one call: first it says what would be decided, and a button of its own makes
 * the call with exactly the parameters that it has shown.
 */

type PreviewedStep = Preview['steps'][number]

export interface StepTrial {
  readonly stepId: string
  readonly tool: string
  readonly params: JsonObject
  /** There are further items, which are not tried. */
  readonly isOfMany: boolean
  readonly trial: Trial
}

/** The value of the button that tries a step, and of the one that makes the call. */
const [trying, running] = ['try:', 'run:']

const fieldOfShown = 'tried_call'

/** The call that was shown, and only this one is made. */
const shownOf = (tool: string, params: JsonObject): string => JSON.stringify([tool, params])

/** Which step the form asks for; null for another action. */
export function askedStep(form: Form): { readonly stepId: string; readonly run: boolean } | null {
  const action = form.get('action') ?? ''
  return action.startsWith(trying) || action.startsWith(running)
    ? { stepId: action.slice(trying.length), run: action.startsWith(running) }
    : null
}

/** For a step that calls a tool and may run. `action` is that of the form. */
export const TryButton = ({ step, action }: { step: PreviewedStep | undefined; action: string }) =>
  step === undefined || step.tool === null || (step.resolved?.calls.length ?? 0) === 0 ? null : (
    <p>
      <button name="action" value={`${trying}${step.step_id}`} formaction={`${action}#tried-step`}>
        Try this step<span class="unseen">{` ${step.step_id}`}</span>
      </button>
    </p>
  )

const refused = (message: string): Problem & { readonly ok: false } => ({
  ok: false,
  status: 422,
  code: 'validation_error',
  message,
})

/** Asks about the call of a previewed step, and with `run` makes it. */
export async function tryStep(visit: PersonsVisit, form: Form, preview: Preview): Promise<Result<StepTrial>> {
  const { stepId = '', run = false } = askedStep(form) ?? {}
  const step = preview.steps.find(({ step_id: id }) => id === stepId)
  const [params] = (step?.resolved?.calls ?? []) as readonly JsonObject[]
  if (step === undefined || step.tool === null || params === undefined)
    return refused(`the step \`${stepId}\` makes no call: look at what would be decided again`)
  const unknown = openIn(params)
  if (unknown !== null)
    return refused(
      `the step \`${stepId}\` was not tried, because \`${unknown}\` is not known yet: write inputs and assumed outputs under the definition, or try the call on the page of its tool`,
    )
  if (run && form.get(fieldOfShown) !== shownOf(step.tool, params))
    return refused(
      `the step \`${stepId}\` was not called, because it has changed since you saw it: try it again, and read its tool and parameters`,
    )
  const { idempotencyKey: once } = onceOf(form)
  const tried = await visit.api.call('POST /tools/{name}/try', {
    params: { name: step.tool },
    body: { organization_id: organizationId(visit), params, labels: step.labels.possible, run },
    ...(run && once !== undefined ? { idempotencyKey: `${once}-run` } : {}),
  })
  if (!tried.ok) return tried
  const isOfMany = step.resolved !== null && step.resolved.calls.length + step.resolved.left_out > 1
  return { ok: true, body: { stepId, tool: step.tool, params, isOfMany, trial: tried.body } }
}

/** A text that still has a template: the preview leaves what it does not know as it is written. */
function openIn(value: Json): string | null {
  if (typeof value === 'string') return /\{\{.{0,200}/s.exec(value)?.[0] ?? null
  if (typeof value !== 'object' || value === null) return null
  for (const each of Object.values(value)) {
    const found = openIn(each)
    if (found !== null) return found
  }
  return null
}

export function TriedStep({ tried, action }: { tried: StepTrial; action: string }) {
  const { stepId, tool, params, isOfMany, trial } = tried
  const { run_id: run } = trial
  return (
    <section class="card stack" aria-labelledby="tried-step">
      <h2 id="tried-step">
        The step <Words text={stepId} most={100} /> as one call
      </h2>
      <p class="quiet small">
        <a href={toolPath(tool)}>{tool}</a>
        {isOfMany ? ' with the first item of its list.' : ' with these parameters.'}
      </p>
      <Values values={params} />
      {run === null ? (
        <>
          <Tried trial={trial} />
          <Run tried={tried} action={action} />
        </>
      ) : (
        <p class="note" role="status">
          The call was started as a run of its own: <a href={`/console/runs/${run}`}>see what became of it</a>
          . What you wrote is not saved.
        </p>
      )}
    </section>
  )
}

function Run({ tried, action }: { tried: StepTrial; action: string }) {
  const { stepId, tool, params, trial } = tried
  if (!trial.executable || !trial.step.available)
    return <p class="quiet">It cannot be called like this, so there is nothing to run.</p>
  return (
    <details class="ask">
      <summary class="button">Make this call …</summary>
      <div class="note stack">
        <p>
          {`It calls ${tool} for real, as a run of your workflow “Try ${tool}”. Rules decide it like any other call.`}
        </p>
        <input type="hidden" name={fieldOfShown} value={shownOf(tool, params)} />
        <button
          name="action"
          value={`${running}${stepId}`}
          formaction={`${action}#tried-step`}
          class="primary"
        >
          Make the call
        </button>
      </div>
    </details>
  )
}
