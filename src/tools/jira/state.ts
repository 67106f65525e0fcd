import { hashOf } from '../../shared/canonical-json.ts'
import type { StateReaderOf } from '../kit/params.ts'
import { jiraOf } from './client.ts'
import { issueCalled, projectCalled } from './reads.ts'

/**
 * Reads the key, the summary and the status of an issue, for the approvers of a comment. Only these values change the
 * revision. Jira's `updated` does not change the revision, because `updated` changes with every comment.
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

/** Reads the id, the key and the name of the project, for the approvers of a new issue. */
export const readProjectState: StateReaderOf<'jira_create_issue'> = async (call, context) => {
  const jira = await jiraOf(call, context, 'jira_create_issue')
  const { id, key, name } = await projectCalled(jira, call.params.project)
  return {
    revision: hashOf({ id, key, name }),
    fields: { 'name of the project': name, link: jira.pageOf(key) },
  }
}
