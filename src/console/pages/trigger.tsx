import { triggerPath, triggersPath, workflowPath } from '../../contract/pages.ts'
import type { AnswerOf } from '../../api/routes/index.ts'
import type { JsonObject } from '../../policy/types.ts'
import { Confirm, empty, Refused, Told, type Filled } from '../parts/form.tsx'
import { PostForm } from '../parts/layout.tsx'
import { Empty, Pager, Table } from '../parts/list.tsx'
import { Badge, type Tone } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import { Facts } from '../parts/values.tsx'
import {
  labelledTrigger,
  triggerBody,
  triggerChanges,
  TriggerFields,
  withPresent,
  type DeclaredValues,
  type Options,
  type Trigger,
} from '../parts/trigger-form.tsx'
import { nothingDone } from '../parts/waiting.tsx'
import { Message, Words } from '../parts/words.tsx'
import type { Form, PersonsVisit, Result, Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'
import {
  accountsFor,
  declaredBy,
  lacksAccount,
  mayArm,
  nextOf,
  shownSecret,
  TriggerState,
  whenWords,
} from './triggers.tsx'

/* One trigger: what it starts, pause and resume, and its firings. */

type Firing = AnswerOf<'GET /workflows/{id}/triggers/{trigger}/firings'>['data'][number]

const namedBy = ({ params }: PersonsVisit) => ({ id: params['id'] ?? '', trigger: params['trigger'] ?? '' })

/** `GET /console/workflows/{id}/triggers/{trigger}` */
export async function triggerPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const params = namedBy(visit)
  const cursor = visit.query.get('cursor') ?? undefined
  const found = await visit.api.call('GET /workflows/{id}/triggers/{trigger}', { params })
  if (!found.ok) return problemPage(found, visit.place)
  const [firings, workflow, accounts] = await Promise.all([
    visit.api.call('GET /workflows/{id}/triggers/{trigger}/firings', {
      params,
      query: { limit: '20', ...(cursor === undefined ? {} : { cursor }) },
    }),
    visit.api.call('GET /workflows/{id}', { params: { id: params.id } }),
    accountsFor(visit),
  ])
  if (!firings.ok) return problemPage(firings, visit.place)
  if (!workflow.ok) return problemPage(workflow, visit.place)
  const trigger = found.body
  const declared = await declaredFor(visit, trigger)
  const filled = labelledTrigger(given, declared)
  const isLost = lacksAccount(trigger, accounts)
  const path = triggerPath(trigger.workflow_id, trigger.id)
  const { data, next_cursor: next } = firings.body
  return {
    status: filled.problem?.status ?? 200,
    title: 'Trigger',
    main: (
      <article class="page">
        <p>
          <a href={triggersPath}>Triggers</a>
        </p>
        <header class="headline">
          <h1>
            <Words text={trigger.name} />
          </h1>
          <p>
            <TriggerState paused={trigger.paused} isLost={isLost} />
          </p>
          {isLost ? (
            <p>Its service account was deleted, or is only a viewer. Choose another one below.</p>
          ) : null}
          {trigger.paused_reason === null ? null : (
            <p>
              <Message text={trigger.paused_reason} />
            </p>
          )}
        </header>
        <Refused filled={filled} />
        <Told visit={visit} results={results} />
        <Facts
          facts={factsOf(trigger, { workflow: workflow.body.name, accounts: accounts ?? [], now: visit.now })}
        />
        {mayArm(visit) ? (
          <>
            <Changes trigger={trigger} token={visit.token} path={path} />
            <Settings {...{ trigger, visit, filled, declared }} accounts={accounts ?? []} />
          </>
        ) : null}
        <h2>Firings</h2>
        {data.length === 0 ? (
          <Empty title="It has not fired yet.">
            A firing is listed here with its run, or with the reason why there is none.
          </Empty>
        ) : (
          <Table
            label="Firings"
            head={['When', 'State', 'Run', 'Reason']}
            rows={data.map((firing) => rowOf(firing, visit.now))}
          />
        )}
        <Pager
          path={path}
          chosen={{ cursor }}
          cursor="cursor"
          next={next}
          words={{ first: 'Newest firings', next: 'Older firings' }}
        />
      </article>
    ),
  }
}

/** With the values that it has, which another version may have declared. */
async function declaredFor(visit: PersonsVisit, { workflow_id: id, inputs, poll }: Trigger) {
  const declared = await declaredBy(visit, { workflow: id, tool: poll?.tool ?? null })
  return {
    inputs: withPresent(declared.inputs, inputs as JsonObject),
    params: withPresent(declared.params, (poll?.params ?? {}) as JsonObject),
  }
}

/** Members do not see the names of service accounts. */
function factsOf(
  trigger: Trigger,
  { workflow, accounts, now }: { workflow: string; accounts: Options; now: Date },
) {
  const [, account] = accounts.find(([id]) => id === trigger.service_account) ?? []
  const { webhook, poll, inputs, untrusted } = trigger
  const next = nextOf(trigger)
  const text = (value: string | null | undefined) =>
    value === null || value === undefined ? null : <Words text={value} most={2_000} />
  return [
    [
      'Workflow',
      <a href={workflowPath(trigger.workflow_id)}>
        <Words text={workflow} most={120} />
      </a>,
    ],
    ['When', whenWords(trigger)],
    ['Next', next === null ? null : <Time at={next} now={now} />],
    ['Address', webhook === null ? null : <code class="whole">{webhook.url}</code>],
    ['Asks for', text(poll && JSON.stringify(poll.params))],
    ['List', text(poll?.list)],
    ['Id of an item', text(poll?.id)],
    ['Order', text(poll?.order)],
    ['Calls', poll && <a href={`/console/runs?workflow_id=${poll.workflow_id}`}>Show the calls</a>],
    ['Version', String(trigger.version)],
    [
      'Service account',
      account === undefined ? <code>{trigger.service_account}</code> : <Words text={account} />,
    ],
    [untrusted ? 'Inputs, untrusted' : 'Inputs', <Words text={JSON.stringify(inputs)} most={2_000} />],
  ] as const
}

function Changes({ trigger, token, path }: { trigger: Trigger; token: string; path: string }) {
  return (
    <div class="buttons">
      <PostForm action={path} token={token}>
        {trigger.paused ? (
          <button name="action" value="resume">
            Resume
          </button>
        ) : (
          <button name="action" value="pause">
            Pause
          </button>
        )}
      </PostForm>
      {trigger.webhook === null || trigger.webhook.verify === 'slack' ? null : (
        <Confirm
          action={path}
          token={token}
          value="secret"
          open="New secret …"
          explanation="Messages with the old secret are refused at once."
          sure="Make a new secret"
        />
      )}
      <Confirm
        action={path}
        token={token}
        value="delete"
        open="Delete …"
        explanation="It starts nothing any more, and its list of firings is gone. Its runs go on."
        sure="Delete the trigger"
      />
    </div>
  )
}

const results = { save: 'The change is saved, and holds from the next firing on.' }

/** Unfolded if something was refused. */
function Settings(props: {
  readonly trigger: Trigger
  readonly visit: PersonsVisit
  readonly accounts: Options
  readonly declared: DeclaredValues
  readonly filled: Filled
}) {
  const { trigger, visit, filled } = props
  return (
    <details open={filled.problem !== null}>
      <summary class="button">Change …</summary>
      <PostForm action={triggerPath(trigger.workflow_id, trigger.id)} token={visit.token} class="card fill">
        <TriggerFields kind={trigger.kind} {...props} />
        <button class="primary" name="action" value="save">
          Save
        </button>
      </PostForm>
    </details>
  )
}

const tones: Readonly<Record<Firing['state'], readonly [Tone, string]>> = {
  waiting: ['wait', 'Waiting'],
  started: ['good', 'Started'],
  skipped: ['off', 'Skipped'],
  failed: ['bad', 'Failed'],
}

function runOf({ run_id: run, poll_run_id: call }: Firing) {
  if (run !== null) return <a href={`/console/runs/${run}`}>Open the run</a>
  return call === null ? '–' : <a href={`/console/runs/${call}`}>Open the call</a>
}

function rowOf(firing: Firing, now: Date) {
  const [tone, word] = tones[firing.state]
  return [
    <Time at={firing.due_at ?? firing.created_at} now={now} />,
    <Badge tone={tone} word={word} />,
    runOf(firing),
    firing.reason === null ? '–' : <Message text={firing.reason} />,
  ]
}

/** `POST /console/workflows/{id}/triggers/{trigger}` */
export async function changeTrigger(visit: PersonsVisit, form: Form): Promise<Shown> {
  const params = namedBy(visit)
  const action = form.get('action')
  const changed = action === 'save' ? await save(visit, form) : await act(visit, params, action)
  if (!changed.ok) return triggerPage(visit, { form: action === 'save' ? form : null, problem: changed })
  const { secret, webhook } = (changed.body ?? {}) as Partial<
    AnswerOf<'PATCH /workflows/{id}/triggers/{trigger}'>
  >
  const path = triggerPath(params.id, params.trigger)
  if (secret && webhook) return shownSecret({ path, secret, url: webhook.url })
  return {
    redirect:
      action === 'delete' ? `${triggersPath}?done=delete` : action === 'save' ? `${path}?done=save` : path,
  }
}

async function save(visit: PersonsVisit, form: Form): Promise<Result<unknown>> {
  const params = namedBy(visit)
  const found = await visit.api.call('GET /workflows/{id}/triggers/{trigger}', { params })
  if (!found.ok) return found
  const { kind, poll } = found.body
  const declared = await declaredFor(visit, found.body)
  const wanted = triggerBody(form, { kind, trigger: found.body, tool: poll?.tool ?? '', declared })
  if ('problem' in wanted) return { ok: false, ...wanted.problem }
  const body = triggerChanges(found.body, wanted.body)
  if (Object.keys(body).length === 0) return found
  return visit.api.call('PATCH /workflows/{id}/triggers/{trigger}', { params, body })
}

function act(
  { api }: PersonsVisit,
  params: { readonly id: string; readonly trigger: string },
  action: string | null,
): Promise<Result<unknown>> {
  const change = (body: object) => api.call('PATCH /workflows/{id}/triggers/{trigger}', { params, body })
  switch (action) {
    case 'pause':
      return change({ paused: true })
    case 'resume':
      return change({ paused: false })
    case 'secret':
      return change({ new_secret: true })
    case 'delete':
      return api.call('DELETE /workflows/{id}/triggers/{trigger}', { params })
    default:
      return Promise.resolve(nothingDone)
  }
}
