// The pages of `paceline ui`, joined from the files of this folder and of report/.
'use strict';
(() => {
