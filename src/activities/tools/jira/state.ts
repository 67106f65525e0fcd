import { hashOf } from '../../../shared/canonical-json.ts'
import type { StateReaderOf } from '../params.ts'
import { jiraOf } from './client.ts'
import { issueCalled, projectCalled } from './reads.ts'

/**
 * Reads the state of the issue that approvers of a comment see. The revision depends on this state alone. Jira's
 * `updated` is not part of it, because `updated` changes with every comment.
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

/** Reads the project that approvers of a new issue see. */
export const readProjectState: StateReaderOf<'jira_create_issue'> = async (call, context) => {
  const jira = await jiraOf(call, context, 'jira_create_issue')
  const { id, key, name } = await projectCalled(jira, call.params.project)
  return {
    revision: hashOf({ id, key, name }),
    fields: { 'name of the project': name, link: jira.pageOf(key) },
  }
}
