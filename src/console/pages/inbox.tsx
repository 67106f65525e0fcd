import { inboxPath } from '../../contract/pages.ts'
import type { AnswerOf } from '../../api/routes/index.ts'
import {
  traitsOf,
  chooserOf,
  type Traits,
  type Form,
  type PersonsVisit,
  type Result,
  type Shown,
  type ApprovalView,
} from '../visit.ts'
import { DecidedOnes } from '../parts/decided.tsx'
import { Inbox, type Done } from '../parts/inbox.tsx'
import { inboxFilters, isOfDecided } from '../parts/inbox-head.tsx'
import { onceOf } from '../parts/form.tsx'
import { addressOf, chosenOf } from '../parts/list.tsx'
import { coveredBy, isTooLong } from './parameters.ts'
import { problemPage } from './plain.tsx'

const perPage = '50'
/** Few, because they stand above the approvals and push them down. */
const unknownPerPage = '10'
/** Those of the API's list, whether decided ones are shown, and the cursor of the unknown outcomes. */
const parameters = [...inboxFilters, 'search', 'order', 'state', 'cursor', 'unknown'] as const

type Chosen = Readonly<Record<string, string>>
type Listed = Result<AnswerOf<'GET /approvals'>>

/** `GET /console/approvals`: the approvals that wait for a decision. */
export async function inboxPage(visit: PersonsVisit, refused: Done | null = null): Promise<Shown> {
  const { organization } = visit.person
  const chosen = chosenOf(visit.query, parameters)
  if (isOfDecided(chosen)) return decidedPage(visit, chosen)
  const [listed, unknown, waiting] = await Promise.all([
    approvalsOf(visit, chosen),
    unknownOf(visit, chosen),
    organization === null
      ? null
      : visit.api.call('GET /organizations/{id}/approvals/summary', {
          params: { id: organization.id },
        }),
  ])
  if (!listed.ok) return problemPage(listed, visit.place)
  const done = refused ?? (await resultOf(visit))
  return {
    status: refused === null ? 200 : 422,
    title: 'Approvals',
    main: (
      <Inbox
        chooser={await chooserOf(visit, listed.body.data)}
        chosen={chosen}
        done={done}
        items={listed.body.data}
        waiting={waiting?.ok === true ? waiting.body : null}
        next={listed.body.next_cursor}
        unknown={unknown?.ok === true ? unknown.body : null}
      />
    ),
  }
}

async function decidedPage(visit: PersonsVisit, chosen: Chosen): Promise<Shown> {
  const { state: _, unknown: __, mine: ___, kind, ...filters } = chosen
  const listed = await visit.api.call('GET /approvals', {
    query: {
      decided: 'true',
      limit: perPage,
      ...ownOf(visit),
      ...filters,
      // What is decided has an outcome, or is no approval.
      ...(kind === undefined || kind === 'resolution' ? {} : { kind }),
    },
  })
  if (!listed.ok) return problemPage(listed, visit.place)
  return {
    status: 200,
    title: 'Decided approvals',
    main: <DecidedOnes visit={visit} chosen={chosen} listed={listed.body} />,
  }
}

const ownOf = ({ person: { organization } }: PersonsVisit) =>
  organization === null ? {} : { organization_id: organization.id }

function approvalsOf(visit: PersonsVisit, chosen: Chosen): Promise<Listed> {
  const { unknown: _, state: __, ...filters } = chosen
  if (filters['kind'] === 'resolution')
    return Promise.resolve({ ok: true, body: { data: [], next_cursor: null } })
  return visit.api.call('GET /approvals', {
    query: { limit: perPage, ...ownOf(visit), ...filters, status: 'pending' },
  })
}

/** null if the filter `kind` selects approvals, and on later pages, because only the first one shows these calls. */
async function unknownOf(
  visit: PersonsVisit,
  { kind, cursor, unknown, ...filters }: Chosen,
): Promise<Listed | null> {
  if (cursor !== undefined || (kind !== undefined && kind !== 'resolution')) return null
  return visit.api.call('GET /approvals', {
    query: {
      kind: 'resolution',
      limit: unknownPerPage,
      ...ownOf(visit),
      ...filters,
      ...(unknown === undefined ? {} : { cursor: unknown }),
    },
  })
}

interface Decided {
  readonly decision: 'approve' | 'reject'
  readonly ids: readonly string[]
}

const isDecision = (given: string | null): given is Decided['decision'] =>
  given === 'approve' || given === 'reject'

/** `POST /console/approvals`: one vote for each. Redirects to the result, so that loading it again sends nothing. */
export async function decideMany(visit: PersonsVisit, form: Form): Promise<Shown> {
  const ids = [...new Set(form.getAll('id'))].slice(0, Number(perPage))
  const decision = form.get('decision')
  const comment = (form.get('comment') ?? '').replaceAll('\r\n', '\n')
  const refuse = (words: string, failed: Done['failed'] = []): Promise<Shown> =>
    inboxPage(visit, { words, failed, kept: { ids, comment } })
  if (!isDecision(decision)) return refuse('No decision was sent: press one of the buttons.')
  if (ids.length === 0) return refuse('Choose at least one of them.')
  if (decision === 'approve') {
    const unlike = await unlikeOnes(visit, ids)
    if (unlike.length > 0)
      return refuse(
        'Nothing was decided. Only calls of one tool, held by one rule and with the same labels, can be approved together.',
        unlike,
      )
  }
  const key = decision === 'approve' ? 'POST /approvals/{id}/approve' : 'POST /approvals/{id}/reject'
  const failed: { id: string; message: string }[] = []
  for (const id of ids) {
    const voted = await visit.api.call(key, {
      params: { id },
      body: { comment },
      ...onceOf(form),
    })
    if (!voted.ok) failed.push({ id, message: voted.message })
  }
  if (failed.length === ids.length) return refuse('Nothing was decided.', failed)
  const query = { ...chosenOf(visit.query, parameters), decision, decided: ids.join(' ') }
  return { redirect: addressOf(inboxPath, query) }
}

async function resultOf(visit: PersonsVisit): Promise<Done | null> {
  const decision = visit.query.get('decision')
  const ids = (visit.query.get('decided') ?? '').split(' ').filter((id) => /^apr_\w{1,40}$/.test(id))
  if (!isDecision(decision) || ids.length === 0) return null
  return readResult(visit, { decision, ids: ids.slice(0, Number(perPage)) })
}

/** Anybody can forge the address that names the decisions. So only votes count that the person has really cast. */
async function readResult({ api, person }: PersonsVisit, { decision, ids }: Decided): Promise<Done> {
  const failed: { id: string; message: string }[] = []
  for (const id of ids) {
    const found = await api.call('GET /approvals/{id}', { params: { id } })
    const own = found.ok ? found.body.votes.find(({ user_id }) => user_id === person.user.id) : undefined
    if (own?.decision === decision) continue
    const why = found.ok ? found.body.detail?.vote_refused : found.message
    failed.push({ id, message: why ?? 'your vote was not counted: decide again' })
  }
  const count = ids.length - failed.length
  return {
    words: `You ${decision === 'approve' ? 'approved' : 'rejected'} ${count} ${count === 1 ? 'call' : 'calls'}.`,
    failed,
    kept: failed.length === 0 ? null : { ids: failed.map(({ id }) => id), comment: '' },
  }
}

/** The calls that cannot be approved together with the first one, each with the reason. */
async function unlikeOnes(visit: PersonsVisit, ids: readonly string[]): Promise<Done['failed']> {
  const unlike: { id: string; message: string }[] = []
  let first: Traits | null = null
  for (const id of ids) {
    const found = await visit.api.call('GET /approvals/{id}', { params: { id } })
    const why = found.ok ? whyApart(visit, found.body, (first ??= traitsOf(found.body))) : found.message
    if (why !== null) unlike.push({ id, message: why })
  }
  return unlike
}

function whyApart(visit: PersonsVisit, approval: ApprovalView, first: Traits): string | null {
  if (approval.kind === 'run') return 'whole runs are approved one by one: open it'
  if (approval.kind === 'change') return 'changes are approved one by one: open it'
  if (approval.kind === 'ask') return 'a question is answered: open it'
  if (approval.kind === 'revision') return 'a call is edited by itself: open it'
  if (approval.kind === 'edit') return 'edited calls are approved one by one: open it'
  if (isTooLong(coveredBy(visit, approval, null))) return 'it is too long for a page: open it'
  const traits = traitsOf(approval)
  const names = (['tool', 'rule', 'labels'] as const).filter((name) => traits[name] !== first[name])
  return names.length === 0 ? null : `differs from the first one in ${listed.format(names)}`
}

const listed = new Intl.ListFormat('en-GB')
