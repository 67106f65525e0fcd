import { hashOf } from '../../../shared/canonical-json.ts'
import type { StateReaderOf } from '../params.ts'
import { jiraOf } from './client.ts'
import { issueCalled } from './reads.ts'

/**
 * What approvers of a comment see of its issue. The revision is made of just this: Jira's `updated` changes with each
 * comment of anybody.
 */
export const readIssueState: StateReaderOf<'jira_comment'> = async (call, context) => {
  const jira = await jiraOf(call, context, 'jira_comment')
  const { key, fields } = await issueCalled(jira, call.params.issue)
  const { summary, status } = fields
  return {
    revision: hashOf({ key, summary, status: status.name }),
    fields: { 'summary of the issue': summary, 'status of the issue': status.name, link: jira.pageOf(key) },
  }
}
