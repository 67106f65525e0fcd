import { readApprovalsReport, readReport } from '../../governance/reports/report.ts'
import { ok, route } from '../route.ts'
import { approvalsReport, governanceReport, reportQuery } from '../schemas/reports.ts'

export const getReport = route({
  key: 'GET /organizations/{id}/governance/report',
  summary: 'How much was held, how people decided and how fast, over a period',
  tag: 'Governance',
  query: reportQuery,
  responses: { 200: governanceReport },
  async handle({ context, caller, query }) {
    return ok(await readReport(context.db, caller.organizationId, query.period))
  },
})

export const getApprovalsReport = route({
  key: 'GET /organizations/{id}/governance/approvals',
  summary: 'Approvals of a period by workflow and by category',
  tag: 'Governance',
  query: reportQuery,
  responses: { 200: approvalsReport },
  async handle({ context, caller, query }) {
    return ok(await readApprovalsReport(context.db, caller.organizationId, query.period))
  },
})
