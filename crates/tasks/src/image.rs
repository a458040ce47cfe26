//! Pictures: what is in them. A picture is brought to the size the network reads, its bytes become numbers as the
//! directory says, and the classes are ranked as those of a text.

use crate::TextModel;
use crate::batches::{Listener, finite, interrupted};
use crate::classify::{self, Label, one_of_several, ranked};
use crate::sheet::{Given, ObjectiveParts, TaskSheet, Wants};
use burn::tensor::{Tensor, TensorData};
use qkv_base::{Error, Result, Task};
use qkv_data::objective::Pictures;
use qkv_data::readers::{Picture, read_picture};
use qkv_data::{Example, Objective};
use qkv_model::Encoder;
use qkv_model::spec::{Head, Input};
use qkv_nn::Cx;
use std::path::Path;

/// The sheet.
pub const SHEET: TaskSheet = TaskSheet {
    task: Task::Image,
    verb: Some(("image", Given::Words("FILE"))),
    wants: Wants::Eyes,
    objective,
    ..classify::SHEET
};

fn objective(parts: &ObjectiveParts) -> Result<Objective> {
    let Some(scale) = parts.scale.clone() else {
        let what = format!("a {} network does not look at pictures", parts.family.name);
        return Err(Error::new("data.objective", what, "choose another model.family"));
    };
    Ok(Objective::Pictures(Pictures { labels: parts.labels.clone(), scale }))
}

/// The classes of each picture file (PNG or JPEG), most probable first.
pub fn classify<P: AsRef<Path>>(
    model: &TextModel,
    files: &[P],
    rows: usize,
    listener: &mut dyn Listener,
) -> Result<Vec<Vec<Label>>> {
    let (Head::Classify { labels, .. }, Input::Patches { image, channels, .. }) =
        (&model.spec().head, &model.spec().input)
    else {
        model.needs(false, "image", "a head that classifies pictures")?;
        return Ok(vec![]);
    };
    one_of_several(model, *labels)?;
    let (names, scale) = (model.labels(*labels)?, model.normalisation(*channels)?);
    let size = Picture { width: *image, height: *image, channels: *channels };
    let mut all = vec![];
    for batch in files.chunks(rows.max(1)) {
        if listener.is_cancelled() {
            return Err(interrupted());
        }
        let mut numbers = vec![];
        for file in batch {
            if let Example::Image { pixels, .. } = read_picture(file.as_ref(), size)? {
                numbers.extend(scale.apply(&pixels));
            }
        }
        let shape = [batch.len(), *channels, *image, *image];
        let pixels = Tensor::<4>::from_data(TensorData::new(numbers, shape), &model.network.model.device());
        let logits = finite(model.network.model.answer_image(pixels, &mut Cx::eval())?, "image", model)?;
        all.extend(logits.chunks(*labels).map(|row| ranked(row, &names)));
        listener.progress(all.len(), files.len());
    }
    Ok(all)
}
