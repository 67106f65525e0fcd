import { h } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import type { Page as ListPage } from '../../governance/page.ts'
import { chooserOf } from '../may-decide.ts'
import { Inbox, type InboxProps } from '../parts/inbox.ts'
import type { Form, PersonsVisit, Shown } from '../visit.ts'
import { problemPage } from './problem.ts'

const perPage = '50'
/** Filters of the address that the API's list takes too. */
const filters = ['kind', 'rule_id', 'requested_by', 'risk', 'cursor'] as const

/** `GET /console/approvals`: what waits for a decision. */
export async function inboxPage(visit: PersonsVisit, done: InboxProps['done'] = null): Promise<Shown> {
  const { organization } = visit.person
  const chosen = Object.fromEntries(
    filters.flatMap((name) => {
      const value = visit.query.get(name)
      return value === null || value === '' ? [] : [[name, value]]
    }),
  )
  const own = organization === null ? {} : { organization_id: organization.id }
  const [listed, unknown] = await Promise.all([
    visit.api.call<ListPage<ApprovalView>>('GET /approvals', {
      query: { status: 'pending', limit: perPage, ...own, ...chosen },
    }),
    visit.api.call<ListPage<ApprovalView>>('GET /approvals', {
      query: { kind: 'resolution', limit: perPage, ...own },
    }),
  ])
  if (!listed.ok) return problemPage(listed, visit.place)
  const isFirst = Object.keys(chosen).length === 0
  return {
    status: 200,
    title: 'Approvals',
    main: h(Inbox, {
      chooser: await chooserOf(visit, listed.body.data),
      chosen,
      done,
      items: listed.body.data,
      next: listed.body.next_cursor,
      unknown: isFirst && unknown.ok ? unknown.body.data : [],
    }),
  }
}

/** `POST /console/approvals`: several decisions at once, each a vote of its own. */
export async function decideMany(visit: PersonsVisit, form: Form): Promise<Shown> {
  const ids = [...new Set(form.getAll('id'))].slice(0, Number(perPage))
  const decision = form.get('decision')
  if (decision !== 'approve' && decision !== 'reject')
    return inboxPage(visit, { words: 'No decision was sent: press one of the buttons.', failed: [] })
  if (ids.length === 0) return inboxPage(visit, { words: 'Choose at least one of them.', failed: [] })
  if (decision === 'approve') {
    const refused = await notAlike(visit, ids)
    if (refused !== null) return inboxPage(visit, { words: refused, failed: [] })
  }
  const comment = (form.get('comment') ?? '').replaceAll('\r\n', '\n')
  const key = decision === 'approve' ? 'POST /approvals/{id}/approve' : 'POST /approvals/{id}/reject'
  const failed: { id: string; message: string }[] = []
  for (const id of ids) {
    const voted = await visit.api.call<ApprovalView>(key, { params: { id }, body: { comment } })
    if (!voted.ok) failed.push({ id, message: voted.message })
  }
  const count = ids.length - failed.length
  const words = `You ${decision === 'approve' ? 'approved' : 'rejected'} ${count} ${count === 1 ? 'call' : 'calls'}.`
  return inboxPage(visit, { words, failed })
}

/** Why these calls cannot be approved together; null if they can. */
async function notAlike({ api }: PersonsVisit, ids: readonly string[]): Promise<string | null> {
  const kinds = new Set<string>()
  for (const id of ids) {
    const found = await api.call<ApprovalView>('GET /approvals/{id}', { params: { id } })
    if (!found.ok) return found.message
    const { tool, rule_id, labels, kind } = found.body
    if (kind === 'run') return 'Whole runs are approved one by one: open each of them.'
    kinds.add(JSON.stringify([kind, tool, rule_id, [...labels].sort()]))
  }
  return kinds.size === 1
    ? null
    : 'Only calls of one tool, held by one rule and with the same labels, can be approved together.'
}
