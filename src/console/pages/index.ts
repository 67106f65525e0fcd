import type { Form, PersonsVisit, Shown } from '../visit.ts'
import { approvalPage, decideApproval } from './approval.ts'
import { inboxPage } from './inbox.ts'

/** A page for signed-in people. */
export interface PageRoute {
  readonly path: string
  get(visit: PersonsVisit): Promise<Shown>
  post?(visit: PersonsVisit, form: Form): Promise<Shown>
}

export const pages: readonly PageRoute[] = [
  { path: '/console/approvals', get: (visit) => inboxPage(visit) },
  {
    path: '/console/approvals/:id',
    get: (visit) => approvalPage(visit),
    post: (visit, form) => decideApproval(visit, form),
  },
]
