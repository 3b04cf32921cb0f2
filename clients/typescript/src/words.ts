// Short forms of messages that programs write often.
import { create } from '@bufbuild/protobuf';

import type { AnswerApprovalRequest } from './gen/acphost/supervisor/v1/approval_pb.js';
import { type ContentBlock, ContentBlockSchema } from './gen/acphost/supervisor/v1/content_pb.js';

/** An answer to a question, of acphost.supervisor.v1.AnswerApprovalRequest. */
export type Answer = AnswerApprovalRequest['answer'];

/** Answers a permission request: by the id of an option, or by a kind that it offers once, such as "allow_once". */
export const choose = (option: string): Answer => ({ case: 'optionId', value: option });

/** Answers what an agent wants to know: by a form's content, or by {} for a page that was opened. */
export const accept = (content: object): Answer => ({ case: 'accept', value: JSON.stringify(content) });

/** Answers what an agent wants to know: the user does not want to say. */
export const decline: Answer = { case: 'decline', value: true };

/** Answers any question: the user does not decide. */
export const cancel: Answer = { case: 'cancel', value: true };

/** A text as a block of a prompt. */
export const text = (value: string): ContentBlock => create(ContentBlockSchema, { content: { case: 'text', value: { text: value } } });
