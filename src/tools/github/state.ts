import { z } from 'zod'
import { hashOf } from '../../shared/canonical-json.ts'
import type { StateReaderOf } from '../kit/params.ts'
import { githubOf } from './client.ts'
import { issueAt } from './place.ts'

const issueState = z.object({ title: z.string(), state: z.string(), html_url: z.string() })

/**
 * Reads the title and the state of an issue or pull request, for the approvers of a comment. Only these two values
 * change the revision. GitHub's `updated_at` does not change the revision, because `updated_at` changes with every
 * comment and label.
 */
export const readIssueState: StateReaderOf<'github_comment'> = async (call, context) => {
  const github = await githubOf(call, context, 'github_comment')
  const place = issueAt(call.params, github.pages)
  const {
    title,
    state,
    html_url: link,
  } = await github.read(issueState, (octokit) => octokit.rest.issues.get({ ...place }))
  return {
    revision: hashOf({ title, state }),
    fields: { 'title of the issue': title, 'state of the issue': state, link },
  }
}
